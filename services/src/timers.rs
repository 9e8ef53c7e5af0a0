//! PID 1's side of schedules: which services have one, and the process that knows when each is due.
//!
//! [`Timers`] is a handle; one driver future does the work with a
//! [`Supervisor`](kelson_helper::supervisor::Supervisor) that keeps one `kelson-timers` at work while there is a schedule.
//! PID 1 reads no calendar. A helper that is replaced gets all schedules again, and reads what it has written down.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::supervisor::{
    self, Duty, End, Expectations, Next, Order, Reply, Status, Supervisor, Wake,
};
use kelson_helper::transport::Packet;
use kelson_helper::{BoxFuture, Launcher};
use kelson_proto::v1::{self, timers_command, timers_report};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::wire;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::manager::Manager;
use crate::manager::timers::{Schedules, Standings};
use crate::owned_helper::OwnedHelper;

/// Whether this build knows schedules: what it leaves out then is not in the program.
pub const SUPPORTED: bool = OWN.has(Feature::Units);
/// Why none runs where no service has a schedule.
const NOTHING: &str = "no service has a schedule";

enum Command {
    Arrange(Schedules),
    Restart,
    Shutdown { deadline: Instant, done: oneshot::Sender<()> },
}

/// The helper as the built-in service `timers` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimersStatus {
    pub helper: Status,
    pub schedules: usize,
    pub closing: bool,
}

/// Has services started by their schedules.
pub struct Timers {
    standings: Arc<Standings>,
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<TimersStatus>,
}

impl Timers {
    /// The handle, the driver to be spawned, and what is worth an event. The driver ends after the handle is dropped.
    pub fn new(
        launcher: Arc<dyn Launcher>,
        manager: Manager,
    ) -> (Timers, BoxFuture<'static, ()>, mpsc::Receiver<String>) {
        let (commands, queue) = mpsc::unbounded_channel();
        let (reports, reported) = mpsc::channel(64);
        let first = TimersStatus { helper: Status::new(NOTHING), schedules: 0, closing: false };
        let (publish, status) = watch::channel(first);
        let standings = Arc::new(Standings::new(manager));
        let driver =
            Agenda { standings: Arc::clone(&standings), schedules: Schedules::new(), publish, reports };
        (Timers { standings, commands, status }, Box::pin(driver.run(launcher, queue)), reported)
    }

    /// From now on the schedules of all services are these that are known now; never waits.
    pub fn arrange(&self) {
        let _ = self.commands.send(Command::Arrange(self.standings.schedules()));
    }

    /// The services with a schedule, sorted by name.
    pub fn list(&self) -> Vec<v1::Timer> {
        self.standings.list()
    }

    pub fn status(&self) -> watch::Receiver<TimersStatus> {
        self.status.clone()
    }

    /// An operator's restart of the helper.
    pub fn restart(&self) {
        let _ = self.commands.send(Command::Restart);
    }

    /// Nothing is started any more; the helper is killed at `deadline`.
    pub async fn shutdown(&self, deadline: Instant) {
        supervisor::ask(&self.commands, |done| Command::Shutdown { deadline, done }).await;
    }
}

struct Agenda {
    standings: Arc<Standings>,
    schedules: Schedules,
    publish: watch::Sender<TimersStatus>,
    reports: mpsc::Sender<String>,
}

#[derive(Debug)]
enum Outgoing {
    Begin(Arc<str>),
    End(Arc<str>),
    Taken(v1::TimerDue),
}

impl Agenda {
    async fn run(mut self, launcher: Arc<dyn Launcher>, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut helper = OwnedHelper::new(launcher, NOTHING);
        let helper = &mut helper.0;
        loop {
            let (command, wake) = tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => (Some(command), Wake::Ready),
                    None => return,
                },
                wake = helper.next(&self, None) => (None, wake),
            };
            let now = Instant::now();
            match command {
                Some(Command::Arrange(schedules)) => self.arrange(schedules, helper, now),
                Some(Command::Restart) => helper.stop(&mut self, now),
                Some(Command::Shutdown { deadline, done }) => {
                    self.publish.send_modify(|status| status.closing = true);
                    helper.shut_down(deadline, Some(done), &mut self, now);
                }
                None => {}
            }
            helper.advance(wake, &mut self, now);
        }
    }

    fn arrange(&mut self, schedules: Schedules, helper: &mut Supervisor<Agenda>, now: Instant) {
        let before = std::mem::replace(&mut self.schedules, schedules);
        for name in before.keys().filter(|name| !self.schedules.contains_key(*name)) {
            self.standings.forget(name);
            helper.enqueue(Outgoing::End(Arc::clone(name)));
        }
        for (name, schedule) in &self.schedules {
            if before.get(name) != Some(schedule) {
                helper.enqueue(Outgoing::Begin(Arc::clone(name)));
            }
        }
        let count = self.schedules.len();
        self.publish.send_modify(|status| status.schedules = count);
        match (before.is_empty(), self.schedules.is_empty()) {
            (true, false) if helper.want(self, now) => helper.publish("being started", self),
            (false, true) => {
                helper.unwant(self, now);
                helper.stop(self, now);
            }
            _ => {}
        }
    }

    fn trouble(&self, text: String) {
        // The receiver is slow or gone; the status has the message too.
        let _ = self.reports.try_send(text);
    }
}

/// It is asked when a start is due, and not in between.
impl Expectations for Agenda {
    fn silence(&self) -> Option<Duration> {
        None
    }
}

impl Duty for Agenda {
    type Order = Outgoing;
    type Command = v1::TimersCommand;
    type Report = v1::TimersReport;

    fn orders(&self) -> Vec<Outgoing> {
        self.schedules.keys().cloned().map(Outgoing::Begin).collect()
    }

    fn command(
        &mut self,
        order: &Order<Outgoing>,
        _now: Instant,
    ) -> Option<(v1::TimersCommand, Vec<BorrowedFd<'_>>)> {
        use timers_command::Command;
        let command = match order {
            Order::Ping => Command::Ping(supervisor::ping()),
            Order::Stop { within } => Command::Stop(supervisor::stop(*within)),
            Order::Own(Outgoing::Begin(name)) => {
                let schedule = wire::encode(self.schedules.get(name)?).ok()?;
                Command::Begin(v1::TimerBegin { service: name.to_string(), schedule })
            }
            Order::Own(Outgoing::End(name)) => Command::End(name.to_string()),
            Order::Own(Outgoing::Taken(due)) => Command::Taken(due.clone()),
        };
        Some((v1::TimersCommand { command: Some(command) }, Vec::new()))
    }

    fn sent(&mut self, order: Order<Outgoing>, result: io::Result<()>, _now: Instant) {
        if let (Order::Own(Outgoing::Begin(name)), Err(error)) = (order, result) {
            self.trouble(format!("the schedule of {name} cannot be handed over: {error}"));
        }
    }

    fn received(&mut self, packet: Packet<v1::TimersReport>, _now: Instant) -> Reply<Outgoing> {
        match packet.message.report {
            Some(timers_report::Report::Pong(pong)) => return Reply::Pong(pong),
            Some(timers_report::Report::Next(next)) => self.standings.note(next),
            Some(timers_report::Report::Due(due)) => {
                if let Some(schedule) = self.schedules.get(due.service.as_str()) {
                    self.standings.due(&due.service, schedule.overlap);
                    return Reply::Order(Outgoing::Taken(due));
                }
            }
            Some(timers_report::Report::Trouble(text)) => self.trouble(text),
            None => {}
        }
        Reply::Nothing
    }

    fn up(&mut self, _now: Instant) {}

    fn ended(&mut self, end: &End, _now: Instant) {
        if matches!(end.next, Next::After(_) | Next::Retry(_)) {
            self.trouble(format!("replaced: {}; no start is lost", end.how));
        }
    }

    fn publish(&mut self, helper: &Status) {
        self.publish.send_modify(|status| status.helper = helper.clone());
    }
}
