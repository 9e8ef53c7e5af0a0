//! The one task behind a [`Prober`](super::Prober): starts a task for the checks of each network, and forwards commands
//! to it.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kelson_helper::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::checks::{Checks, Request, Shared};
use super::{Command, Launchers, Place, ProberStatus, Report};

pub struct Driver {
    shared: Arc<Shared>,
    commands: mpsc::UnboundedReceiver<Command>,
    networks: HashMap<Place, mpsc::UnboundedSender<Request>>,
    /// Each ends with its place, once nothing is asked there and its probe has ended.
    running: FuturesUnordered<BoxFuture<'static, Place>>,
    /// No check begins any more; these callers wait for the last network to end.
    shutdown: Option<Vec<oneshot::Sender<()>>>,
}

impl Driver {
    pub fn new(
        launchers: Launchers,
        commands: mpsc::UnboundedReceiver<Command>,
        reports: mpsc::Sender<Report>,
        status: watch::Sender<ProberStatus>,
    ) -> Driver {
        Driver {
            shared: Arc::new(Shared { launchers, status, reports }),
            commands,
            networks: HashMap::new(),
            running: FuturesUnordered::new(),
            shutdown: None,
        }
    }

    /// Ends when no handle is left; dropped, it takes all probes with it.
    pub async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => return,
                },
                Some(place) = self.running.next() => self.ended(&place),
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Watch { .. } if self.shutdown.is_some() => {}
            Command::Watch { place, entry } => self.begin(place, Request::Watch(entry)),
            Command::End { place, id } => {
                if let Some(network) = self.networks.get(&place) {
                    // One that has ended knows of no check.
                    let _ = network.send(Request::End(id));
                }
            }
            Command::Restart => self.tell_all(|| Request::Restart),
            Command::Shutdown { deadline, done } => self.shut_down(deadline, done),
        }
    }

    fn begin(&mut self, place: Place, request: Request) {
        let request = match self.networks.get(&place) {
            Some(network) => match network.send(request) {
                Ok(()) => return,
                // It has just ended.
                Err(mpsc::error::SendError(request)) => request,
            },
            None => request,
        };
        let (network, requests) = mpsc::unbounded_channel();
        // The other end is right here.
        let _ = network.send(request);
        self.running.push(Box::pin(Checks::new(place.clone(), Arc::clone(&self.shared)).run(requests)));
        self.networks.insert(place, network);
        self.count_others();
    }

    fn tell_all(&self, request: impl Fn() -> Request) {
        for network in self.networks.values() {
            let _ = network.send(request());
        }
    }

    fn shut_down(&mut self, deadline: Instant, done: oneshot::Sender<()>) {
        self.shutdown.get_or_insert_default().push(done);
        self.tell_all(|| Request::Shutdown(deadline));
        self.shut_down_done();
    }

    fn shut_down_done(&mut self) {
        if !self.running.is_empty() {
            return;
        }
        for done in self.shutdown.iter_mut().flat_map(|waiting| waiting.drain(..)) {
            // The caller may have given up.
            let _ = done.send(());
        }
    }

    fn ended(&mut self, place: &Place) {
        // Its place may have a new one already.
        if self.networks.get(place).is_some_and(mpsc::UnboundedSender::is_closed) {
            self.networks.remove(place);
        }
        self.count_others();
        self.shut_down_done();
    }

    fn count_others(&self) {
        let others = self.networks.keys().filter(|place| **place != Place::Host).count();
        self.shared.status.send_if_modified(|status| {
            let changed = status.others != others;
            status.others = others;
            changed
        });
    }
}
