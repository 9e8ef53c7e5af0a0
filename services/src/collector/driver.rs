//! The one task that owns the pipes and the life of logd.
//!
//! logd is absent, being launched, or running. Whatever ends one, the next gets all pipes again, in the order in which
//! they were made; services never hear of it.

mod launching;

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_proto::v1;
use tokio::io::Interest;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::heartbeat::{self, Step, after};
use super::held::{Held, Lost};
use super::kept::{InheritedLog, KeptLog};
use super::run::{Asked, Event, Logd, LogdRun, Outgoing};
use super::{Command, Judge, LogdStatus, Report};
use kelson_helper::Launcher;
use kelson_helper::transport::{self as control, Packet};
use launching::PAUSE;

/// Without a logd that answers for so long, PID 1 drops the oldest lines of pipes that fill up, and looks again after
/// [`EMPTY_AGAIN`].
const EMPTY: Duration = Duration::from_millis(1700);
const EMPTY_AGAIN: Duration = Duration::from_millis(200);
/// The end of a process shows at its socket first; so long its exit may take to tell how it ended.
const EXIT: Duration = Duration::from_millis(50);
/// Reports of what was lost come no more often.
const TELL: Duration = Duration::from_secs(1);
/// On an operator's restart logd gets so long to write what it holds.
const ORDERLY: Duration = Duration::from_millis(1000);

pub struct Driver {
    launcher: Arc<dyn Launcher>,
    commands: mpsc::UnboundedReceiver<Command>,
    reports: mpsc::Sender<Report>,
    status: watch::Sender<LogdStatus>,
    directory: PathBuf,
    judge: Judge,
    held: Held,
    logd: Logd,
    pause: Duration,
    unsound: u32,
    /// Since when no logd answers, and when PID 1 looks whether pipes fill up.
    absent: Option<Instant>,
    empty_at: Option<Instant>,
    /// What was emptied and not yet told.
    lost: HashMap<Arc<str>, Lost>,
    told: Option<Instant>,
    shutdown: Option<(Instant, Vec<oneshot::Sender<()>>)>,
}

impl Driver {
    pub fn new(
        launcher: Arc<dyn Launcher>,
        directory: PathBuf,
        commands: mpsc::UnboundedReceiver<Command>,
        reports: mpsc::Sender<Report>,
        status: watch::Sender<LogdStatus>,
        mut held: Held,
        inherited: Vec<InheritedLog>,
    ) -> Driver {
        let (sockets, pipes): (Vec<_>, Vec<_>) =
            inherited.into_iter().partition(|one| matches!(one.what, KeptLog::Control { .. }));
        held.inherit(pipes);
        let mut driver = Driver {
            launcher,
            commands,
            reports,
            status,
            directory,
            judge: Arc::new(|_| Err("PID 1 is being started; try again in a moment".to_owned())),
            held,
            logd: Logd::Absent { retry: None },
            pause: PAUSE,
            unsound: 0,
            absent: None,
            empty_at: None,
            lost: HashMap::new(),
            told: None,
            shutdown: None,
        };
        driver.attach(sockets, Instant::now());
        driver
    }

    /// Ends when no handle is left; logd then finds its socket closed, writes what it holds and ends.
    pub async fn run(mut self) {
        let now = Instant::now();
        if matches!(self.logd, Logd::Absent { .. }) {
            self.absent = Some(now);
            self.launch(now);
        }
        loop {
            self.watch_pipes();
            let event = self.next_event().await;
            let now = Instant::now();
            match event {
                Event::Command(None) => return,
                Event::Command(Some(command)) => self.command(command, now),
                Event::Launched(Ok(process)) => self.launched(process, now),
                Event::Launched(Err(error)) => {
                    self.not_launched(&format!("could not be started: {error}"), now)
                }
                Event::Exited(how) => self.gone(&how, now),
                Event::Packet(packet) => self.packet(packet, now),
                Event::Writable => {}
                Event::Unread => self.unread(now),
                Event::Tick => {}
            }
            // A late timer must not be taken for a dead logd while its answer lies unread in the socket.
            self.take_packets(now);
            // Nor that a ping has yet to go out.
            self.send_queue(now);
            self.tick(now);
            self.send_queue(now);
        }
    }

    async fn next_event(&mut self) -> Event {
        let deadline = self.deadline();
        let tick = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = self.commands.recv() => Event::Command(command),
            event = self.logd.event() => event,
            () = tick => Event::Tick,
            () = self.held.readable() => Event::Unread,
        }
    }

    /// The earliest of what waits for a time; none at all while logd runs and all is quiet.
    fn deadline(&self) -> Option<Instant> {
        let logd = match &self.logd {
            Logd::Absent { retry } => *retry,
            Logd::Launching(launch) => Some(launch.by),
            Logd::Running(run) => {
                run.heartbeat.next().into_iter().chain(run.stop_by).chain(run.exit_by).min()
            }
        };
        let shutdown = self.shutdown.as_ref().filter(|(_, waiting)| !waiting.is_empty()).map(|(by, _)| *by);
        logd.into_iter().chain(self.empty_at).chain(shutdown).min()
    }

    /// Armed only where the next byte is news.
    fn watch_pipes(&mut self) {
        let quiet = match &self.logd {
            Logd::Running(run) if run.answered => run.heartbeat.quiet(),
            _ => self.empty_at.is_none(),
        };
        if quiet { self.held.arm() } else { self.held.disarm() }
    }

    fn unread(&mut self, now: Instant) {
        match &mut self.logd {
            Logd::Running(run) if run.answered => run.heartbeat.data(now),
            _ => {
                let since = self.absent.unwrap_or(now);
                self.empty_at = Some(after(since, EMPTY).max(after(now, EMPTY_AGAIN)));
            }
        }
    }

    fn command(&mut self, command: Command, now: Instant) {
        match command {
            Command::Judge(judge) => self.judge = judge,
            Command::Pipes(new) => {
                let id = self.held.add(*new);
                self.enqueue(Outgoing::Run(id));
            }
            Command::Forget(service) => self.enqueue(Outgoing::Forget(service)),
            Command::Directory(path) => {
                self.directory = path;
                self.enqueue(Outgoing::Directory);
            }
            Command::Restart => self.restart(now),
            Command::Shutdown { deadline, done } => self.shut_down(deadline, done, now),
        }
    }

    /// Whoever runs gets it; one that comes later is told everything anyway.
    fn enqueue(&mut self, outgoing: Outgoing) {
        if let Logd::Running(run) = &mut self.logd {
            run.queue.push_back(outgoing);
        }
    }

    fn restart(&mut self, now: Instant) {
        match &mut self.logd {
            Logd::Running(run) if run.stop_by.is_none() => run.stop(ORDERLY, now),
            Logd::Absent { retry: Some(retry) } => *retry = now,
            _ => {}
        }
    }

    fn shut_down(&mut self, deadline: Instant, done: oneshot::Sender<()>, now: Instant) {
        let (_, waiting) = self.shutdown.get_or_insert_with(|| (deadline, Vec::new()));
        waiting.push(done);
        match &mut self.logd {
            Logd::Running(run) => run.stop(deadline.duration_since(now), now),
            Logd::Launching(_) => {}
            Logd::Absent { .. } => self.shut_down_done("stopped"),
        }
    }

    fn shut_down_done(&mut self, message: &str) {
        self.logd = Logd::Absent { retry: None };
        self.publish(message, |_| {});
        if let Some((_, waiting)) = &mut self.shutdown {
            for done in waiting.drain(..) {
                // Whoever waited may have given up.
                let _ = done.send(());
            }
        }
    }

    fn kill(&mut self, why: &str, now: Instant) {
        if let Logd::Running(run) = &self.logd {
            (run.process.kill)();
            self.gone(why, now);
        }
    }

    fn take_packets(&mut self, now: Instant) {
        while let Logd::Running(run) = &mut self.logd
            && run.exit_by.is_none()
        {
            let LogdRun { control, receiver, .. } = run.as_mut();
            match control.try_io(Interest::READABLE, |socket| receiver.receive(socket.as_fd())) {
                Err(error) if control::would_block(&error) => break,
                packet => self.packet(packet, now),
            }
        }
    }

    fn packet(&mut self, packet: io::Result<Option<Packet<v1::LogdReport>>>, now: Instant) {
        match packet {
            Ok(Some(packet)) => self.reported(packet, now),
            Ok(None) => self.closed(now),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.report(Report::Trouble { text: format!("kelson-logd sent what is no report: {error}") });
            }
            Err(error) if control::would_block(&error) => {}
            Err(_) => self.closed(now),
        }
    }

    /// It has ended, or will soon; its exit tells how, but the pipes need not wait long for that.
    fn closed(&mut self, now: Instant) {
        if let Logd::Running(run) = &mut self.logd {
            let by = run.stop_by.unwrap_or_else(|| after(now, EXIT));
            run.exit_by.get_or_insert(by);
        }
    }

    fn reported(&mut self, Packet { message, descriptors }: Packet<v1::LogdReport>, now: Instant) {
        match message.report {
            Some(v1::logd_report::Report::Client(client)) => {
                let judged = match descriptors.first() {
                    Some(socket) => (self.judge)(socket.as_fd()),
                    None => Err("kelson-logd did not say who asks".to_owned()),
                };
                let refusal = judged.err().unwrap_or_default();
                self.enqueue(Outgoing::Verdict { number: client.number, refusal });
            }
            Some(v1::logd_report::Report::Pong(pong)) => self.pong(pong.number, now),
            Some(v1::logd_report::Report::Ended(ended)) => self.held.ended(ended.id, ended.stderr),
            Some(v1::logd_report::Report::Dropped(dropped)) => {
                let lost = Lost { lines: dropped.lines, bytes: dropped.bytes };
                self.dropped(dropped.service.into(), lost, dropped.reason);
            }
            Some(v1::logd_report::Report::Trouble(trouble)) => {
                self.report(Report::Trouble { text: trouble.message })
            }
            // From a newer logd; it can wait.
            None => {}
        }
    }

    fn pong(&mut self, number: u64, now: Instant) {
        let Logd::Running(run) = &mut self.logd else { return };
        if run.heartbeat.pong(number, now) && !run.answered {
            run.answered = true;
            self.absent = None;
            self.empty_at = None;
            self.publish("running", |status| status.up = true);
            self.tell_lost(now, true);
        }
    }

    fn tick(&mut self, now: Instant) {
        self.empty_pipes(now);
        if self.shutdown.as_ref().is_some_and(|(by, waiting)| now >= *by && !waiting.is_empty()) {
            if let Logd::Running(run) = &self.logd {
                (run.process.kill)();
            }
            return self.shut_down_done("killed: it did not end in time");
        }
        let held = &self.held;
        match &mut self.logd {
            Logd::Absent { retry: Some(retry) } if now >= *retry => self.launch(now),
            Logd::Absent { .. } => {}
            Logd::Launching(launch) if now >= launch.by => {
                self.not_launched("could not be started in 5 s", now)
            }
            Logd::Launching(_) => {}
            Logd::Running(run) => {
                if run.stop_by.is_some_and(|by| now >= by) {
                    return self.kill("did not end in time and was killed", now);
                }
                if run.exit_by.is_some_and(|by| now >= by) {
                    return self.kill("closed its socket and was killed", now);
                }
                let LogdRun { heartbeat, asked, process, queue, .. } = run.as_mut();
                let starved = || asked.starved(process.pid, now);
                match heartbeat.tick(now, || held.any_unread(), || held.any_filling(), starved) {
                    Step::Nothing => {}
                    Step::Ping(number) => {
                        *asked = Asked::new(process.pid, now);
                        queue.push_back(Outgoing::Ping(number));
                    }
                    Step::Dead => {
                        // Nobody has read since the byte that was unread.
                        self.absent = self
                            .absent
                            .or(now.checked_sub(heartbeat::LOOK.saturating_add(heartbeat::ANSWER)));
                        self.kill("did not answer its ping and was killed", now);
                    }
                }
            }
        }
    }

    /// While no logd answers: nobody shall block on a pipe that nobody reads.
    fn empty_pipes(&mut self, now: Instant) {
        if self.absent.is_none() || self.empty_at.is_none_or(|at| now < at) {
            return;
        }
        for (service, lost) in self.held.relieve_full() {
            self.lost.entry(service).or_default().add(lost);
        }
        self.tell_lost(now, false);
        self.empty_at = (self.held.any_unread() || !self.lost.is_empty()).then(|| after(now, EMPTY_AGAIN));
    }

    fn tell_lost(&mut self, now: Instant, at_once: bool) {
        if !at_once && self.told.is_some_and(|told| now.duration_since(told) < TELL) {
            return;
        }
        self.told = Some(now);
        for (service, lost) in std::mem::take(&mut self.lost) {
            self.dropped(service, lost, "no kelson-logd was there to read it".into());
        }
    }

    fn dropped(&mut self, service: Arc<str>, lost: Lost, reason: String) {
        self.status.send_modify(|status| {
            status.dropped_lines = status.dropped_lines.saturating_add(lost.lines);
            status.dropped_bytes = status.dropped_bytes.saturating_add(lost.bytes);
        });
        self.report(Report::Dropped { service, lines: lost.lines, bytes: lost.bytes, reason });
    }

    /// Sends what fits; the rest waits for the socket.
    fn send_queue(&mut self, now: Instant) {
        let Logd::Running(run) = &mut self.logd else { return };
        if run.exit_by.is_some() {
            return;
        }
        while let Some(next) = run.queue.front() {
            let (command, descriptors) = match next {
                Outgoing::Run(id) => match self.held.message(*id) {
                    Some((run, descriptors)) => (v1::logd_command::Command::Run(run), descriptors),
                    None => {
                        run.queue.pop_front();
                        continue;
                    }
                },
                other => (other.message(&self.directory), Vec::new()),
            };
            let message = v1::LogdCommand { command: Some(command) };
            let sent = run
                .control
                .try_io(Interest::WRITABLE, |fd| control::send(fd.as_fd(), &message, &descriptors));
            match sent {
                Ok(()) => match run.queue.pop_front() {
                    Some(Outgoing::Run(id)) => self.held.handed(id),
                    Some(Outgoing::Ping(number)) => run.heartbeat.sent(number, now),
                    _ => {}
                },
                Err(error) if control::would_block(&error) => break,
                // Longer than a packet: no logd would take it.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => drop(run.queue.pop_front()),
                Err(_) => return self.closed(now),
            }
        }
        if run.queue.is_empty() {
            run.queue.shrink_to(16);
        }
    }

    fn report(&self, report: Report) {
        // Nobody takes them, or not fast enough: the totals are in the status.
        let _ = self.reports.try_send(report);
    }

    /// `up` and `pid` follow from where logd is.
    fn publish(&mut self, message: &str, change: impl FnOnce(&mut LogdStatus)) {
        let running = matches!(self.logd, Logd::Running(_));
        self.status.send_modify(|status| {
            if !running {
                status.pid = None;
                status.up = false;
            }
            status.since = Instant::now();
            status.message = message.into();
            change(status);
        });
    }
}
