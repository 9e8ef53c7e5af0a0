//! Events and the log of one service: streams that go on where they broke.

use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::{EventsRequest, ReadRequest};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::answer::{PASSING, ask};
use crate::dashboard::model::{News, Wish};
use crate::failure::Failure;
use crate::follow::{Log, Pauses};

/// Lines of the past that are shown.
const TAIL: u32 = 200;

/// Attempts at a stream. The first that fails says nothing: streams break when PID 1 re-executes itself or logd is
/// replaced, and are there again at once.
#[derive(Default)]
struct Attempts {
    failed: u32,
    pauses: Pauses,
}

impl Attempts {
    /// The pause, and what to show.
    fn fail(&mut self, failure: &Failure) -> (Duration, Option<String>) {
        self.failed += 1;
        (self.pauses.take(), (self.failed == 2).then(|| failure.to_string()))
    }
}

fn ended() -> Failure {
    Failure::NotReachable("the host has ended the stream".to_owned())
}

/// All events from the oldest that is kept, each once.
pub async fn events(
    mut clients: watch::Receiver<Client>,
    mut lives: watch::Receiver<()>,
    stir: watch::Sender<()>,
    to: mpsc::Sender<News>,
) {
    let (mut since, mut attempts) = (0, Attempts::default());
    loop {
        let client = clients.borrow_and_update().clone();
        let failure = tokio::select! {
            Err(failure) = event_stream(&client, &mut since, &mut attempts, &stir, &to) => failure,
            Ok(()) = lives.changed() => {
                since = 0;
                let _ = to.send(News::Incarnation).await;
                continue;
            }
            Ok(()) = clients.changed() => continue,
        };
        stir.send_replace(());
        let (pause, reason) = attempts.fail(&failure);
        if let Some(reason) = reason {
            let _ = to.send(News::NoEvents(reason)).await;
        }
        tokio::select! {
            () = sleep(pause) => {}
            _ = clients.changed() => {}
        }
    }
}

async fn event_stream(
    client: &Client,
    since: &mut u64,
    attempts: &mut Attempts,
    stir: &watch::Sender<()>,
    to: &mpsc::Sender<News>,
) -> Result<(), Failure> {
    let request = EventsRequest { since: *since, follow: true, ..EventsRequest::default() };
    let mut batches = ask(client.services().events(request)).await?;
    while let Some(batch) = batches.message().await? {
        *attempts = Attempts::default();
        stir.send_replace(());
        // Smaller numbers are those of another incarnation, of which a message comes soon.
        let events: Vec<_> = batch.events.into_iter().filter(|event| event.seq >= *since).collect();
        if let Some(last) = events.last() {
            *since = last.seq.saturating_add(1);
        }
        let _ = to.send(News::Events(events, batch.missed)).await;
    }
    Err(ended())
}

/// The log of the service that is wished for.
pub async fn logs(
    mut clients: watch::Receiver<Client>,
    mut wishes: watch::Receiver<Wish>,
    to: mpsc::Sender<News>,
) {
    loop {
        let wish = wishes.borrow_and_update().clone();
        if let Wish::LogOf(name) = &wish {
            let _ = to.send(News::LogOf(name.clone())).await;
            tokio::select! {
                () = log_of(name, &mut clients, &to) => {}
                gone = wishes.wait_for(|now| *now != wish) => if gone.is_err() { return },
            }
        } else if wishes.changed().await.is_err() {
            return;
        }
        sleep(PASSING).await;
    }
}

/// Its last lines, and those to come. Never returns.
async fn log_of(name: &str, clients: &mut watch::Receiver<Client>, to: &mpsc::Sender<News>) {
    let names = vec![name.to_owned()];
    let request = ReadRequest { names, follow: true, tail: Some(TAIL), ..ReadRequest::default() };
    let (mut log, mut attempts) = (Log::new(request), Attempts::default());
    loop {
        let client = clients.borrow_and_update().clone();
        let failure = tokio::select! {
            Err(failure) = log_stream(&client, &mut log, &mut attempts, to) => Some(failure),
            Ok(()) = clients.changed() => None,
        };
        log.begin_again();
        let Some(failure) = failure else { continue };
        let (pause, reason) = attempts.fail(&failure);
        if let Some(reason) = reason {
            let _ = to.send(News::NoLog(reason)).await;
        }
        tokio::select! {
            () = sleep(pause) => {}
            _ = clients.changed() => {}
        }
    }
}

async fn log_stream(
    client: &Client,
    log: &mut Log,
    attempts: &mut Attempts,
    to: &mpsc::Sender<News>,
) -> Result<(), Failure> {
    let mut batches = ask(client.logs().read(log.request.clone())).await?;
    log.connected();
    while let Some(batch) = batches.message().await? {
        *attempts = Attempts::default();
        let _ = to.send(News::Lines(log.news(batch.lines))).await;
    }
    Err(ended())
}
