//! The one task that owns the pipes, and the supervisor of logd.
//!
//! When one logd ends, for any reason, the next one gets all pipes again, in the order in which they were
//! made. Services do not notice.

use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_helper::supervisor::{AnswerTimes, Policy, Supervisor, Wake};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Command;
use super::duty::{ANSWER, Logs, Outgoing};
use super::kept::{InheritedLog, KeptLog};

const POLICY: Policy = Policy {
    answer: AnswerTimes { usual: ANSWER, first: Duration::from_secs(3) },
    pause: Duration::from_millis(100),
    tolerated: 8,
    longest_alive: Duration::from_secs(1),
};

pub struct Driver {
    commands: mpsc::UnboundedReceiver<Command>,
    supervisor: Supervisor<Logs>,
    logs: Logs,
}

/// An event that wakes the driver.
enum Event {
    Command(Option<Command>),
    Logd(Wake),
    Unread,
}

impl Driver {
    pub fn new(
        launcher: Arc<dyn Launcher>,
        mut logs: Logs,
        commands: mpsc::UnboundedReceiver<Command>,
        inherited: Vec<InheritedLog>,
    ) -> Driver {
        let (sockets, pipes): (Vec<_>, Vec<_>) =
            inherited.into_iter().partition(|one| matches!(one.what, KeptLog::Control { .. }));
        logs.held.inherit(pipes);
        let supervisor = Supervisor::new(launcher, POLICY, logs.status().helper, "");
        let mut driver = Driver { commands, supervisor, logs };
        driver.attach(sockets, Instant::now());
        driver
    }

    /// Continues with the logd that an earlier incarnation of PID 1 has started. It has gone on reading.
    fn attach(&mut self, sockets: Vec<InheritedLog>, now: Instant) {
        let Driver { supervisor, logs, .. } = self;
        for InheritedLog { what, descriptor } in sockets {
            let KeptLog::Control { pid, start_time, restarts } = what else { continue };
            if let Err(socket) = supervisor.attach(descriptor, (pid, start_time), restarts, logs, now) {
                logs.held.let_go(&socket);
            }
        }
        if !supervisor.is_up() {
            // Also where another was just being started: the one before may have held lines.
            logs.held.taken_back(false);
        }
    }

    /// Ends when no handle is left; logd then finds its socket closed, writes what it holds and ends.
    pub async fn run(mut self) {
        let Driver { commands, supervisor, logs } = &mut self;
        let now = Instant::now();
        if !supervisor.is_up() {
            logs.absent(now);
        }
        supervisor.want(logs, now);
        loop {
            logs.watch_pipes(supervisor.is_up());
            let event = tokio::select! {
                biased;
                command = commands.recv() => Event::Command(command),
                wake = supervisor.next(logs, logs.relieve_at()) => Event::Logd(wake),
                () = logs.held.readable() => Event::Unread,
            };
            let now = Instant::now();
            let wake = match event {
                Event::Command(None) => return,
                Event::Command(Some(command)) => {
                    do_command(command, supervisor, logs, now);
                    Wake::Ready
                }
                Event::Logd(wake) => wake,
                Event::Unread if supervisor.is_up() => {
                    logs.expect_logd();
                    supervisor.expect(now);
                    Wake::Ready
                }
                Event::Unread => {
                    logs.relieve_soon(now);
                    Wake::Ready
                }
            };
            supervisor.advance(wake, logs, now);
            logs.relieve(now);
        }
    }
}

fn do_command(command: Command, supervisor: &mut Supervisor<Logs>, logs: &mut Logs, now: Instant) {
    match command {
        Command::Judge(judge) => logs.judge = judge,
        Command::Pipes(new) => supervisor.enqueue(Outgoing::Run(logs.held.add(*new))),
        Command::Forget(service) => supervisor.enqueue(Outgoing::Forget(service)),
        Command::Directory(path) => {
            logs.directory = path;
            supervisor.enqueue(Outgoing::Directory);
        }
        Command::Restart => supervisor.stop(logs, now),
        Command::Shutdown { deadline, done } => supervisor.shut_down(deadline, Some(done), logs, now),
    }
}
