//! From one logd to the next: started, taken up from an earlier incarnation of PID 1, ended, and when the next is
//! tried.

use std::os::fd::OwnedFd;
use std::time::Duration;

use kelson_sys::descriptor::Watched;
use tokio::io::Interest;
use tokio::time::Instant;

use super::super::Report;
use super::super::heartbeat::{Heartbeat, after};
use super::super::kept::{InheritedLog, Kept, KeptLog};
use super::super::run::{Asked, Launch, Logd, LogdRun, Outgoing};
use super::Driver;
use kelson_helper::transport::{self as control, Receiver};
use kelson_helper::{Launched, Start};

/// From the end of one logd to the start of the next, unless they keep ending.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause where none can be started, and where they start, answer, and soon end.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE_ALIVE: Duration = Duration::from_secs(1);
/// One that answered and lived so long was sound; so many others in a row are replaced without a longer pause.
const SOUND: Duration = Duration::from_secs(5);
const UNSOUND: u32 = 8;
/// The version of the logd that this program starts.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// One of another version has so long to write what it holds.
const LAST_LINES: Duration = Duration::from_secs(5);
/// Making a process takes no longer.
const LAUNCH: Duration = Duration::from_secs(5);

impl Driver {
    pub(super) fn launch(&mut self, now: Instant) {
        match control::pair() {
            Ok((control, theirs)) => {
                let future = self.launcher.launch(Start::new(Vec::new(), theirs));
                self.logd = Logd::Launching(Launch { future, control, by: after(now, LAUNCH) });
            }
            Err(error) => self.not_launched(&format!("could not be started: {error}"), now),
        }
    }

    /// Goes on with the logd that an earlier incarnation of PID 1 has started. It has gone on reading; what it was not
    /// told yet, and whether it answers, is found out as with a new one.
    pub(super) fn attach(&mut self, sockets: Vec<InheritedLog>, now: Instant) {
        let mut attached = false;
        for InheritedLog { what, descriptor } in sockets {
            let KeptLog::Control { pid, start_time, restarts, version } = what else { continue };
            self.status.send_modify(|status| status.restarts = restarts);
            match self.launcher.attach(pid, start_time) {
                Some(process) => {
                    attached = true;
                    let ours = version == VERSION;
                    self.take_up(descriptor, process, version, now);
                    if let Logd::Running(run) = &mut self.logd {
                        run.answered = true;
                        if !ours {
                            // It writes what it holds; the next one reads on from the same pipes.
                            run.stop(LAST_LINES, now);
                        }
                        self.publish("running", |status| (status.pid, status.up) = (Some(pid), true));
                    }
                }
                None => self.held.let_go(&descriptor),
            }
        }
        if !attached {
            // Also where another was just being started: the one before may have held lines.
            self.held.taken_back(false);
        }
    }

    pub(super) fn launched(&mut self, process: Launched, now: Instant) {
        let Logd::Launching(launch) = std::mem::replace(&mut self.logd, Logd::Absent { retry: None }) else {
            return;
        };
        let pid = process.pid;
        self.take_up(launch.control, process, VERSION.to_owned(), now);
        if matches!(self.logd, Logd::Running(_)) {
            self.publish("started", |status| status.pid = Some(pid));
        }
    }

    fn take_up(&mut self, control: OwnedFd, process: Launched, version: String, now: Instant) {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let restarts = self.status.borrow().restarts;
        let what = KeptLog::Control { pid: process.pid, start_time: process.start_time, restarts, version };
        let control = Kept::new(control, self.held.descriptor_store(), what);
        let control = match Watched::new(control, interest) {
            Ok(control) => control,
            Err(error) => {
                (process.kill)();
                return self.not_launched(&format!("could not be reached: {error}"), now);
            }
        };
        let runs = self.held.ids().into_iter().map(Outgoing::Run);
        let queue = std::iter::once(Outgoing::Directory).chain(runs).chain([Outgoing::Ping(1)]).collect();
        let mut run = Box::new(LogdRun {
            control,
            receiver: Receiver::default(),
            asked: Asked::new(process.pid, now),
            process,
            queue,
            heartbeat: Heartbeat::new(now),
            born: now,
            answered: false,
            stop_by: None,
            exit_by: None,
        });
        if let Some((deadline, _)) = &self.shutdown {
            run.stop(deadline.duration_since(now), now);
        }
        self.logd = Logd::Running(run);
    }

    pub(super) fn not_launched(&mut self, why: &str, now: Instant) {
        if self.shutdown.is_some() {
            return self.shut_down_done("stopped");
        }
        self.logd = Logd::Absent { retry: Some(after(now, self.pause)) };
        let reason = format!("{why}; trying again in {} ms", self.pause.as_millis());
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
        self.absent.get_or_insert(now);
        self.publish(&reason, |_| {});
        self.report(Report::Restarted { reason });
    }

    /// The running logd has ended, or is given up.
    pub(super) fn gone(&mut self, how: &str, now: Instant) {
        let Logd::Running(run) = std::mem::replace(&mut self.logd, Logd::Absent { retry: None }) else {
            return;
        };
        let asked = run.stop_by.is_some();
        let in_order = asked && run.stop_by.is_some_and(|by| now < by);
        self.held.taken_back(in_order);
        self.absent.get_or_insert(now);
        if self.shutdown.is_some() {
            return self.shut_down_done("stopped");
        }
        if asked {
            self.publish("it has ended as it was asked to, the next one is started", |_| {});
            return self.launch(now);
        }
        if run.answered && now.duration_since(run.born) >= SOUND {
            self.unsound = 0;
            self.pause = PAUSE;
        }
        let pause = self.pause;
        self.unsound = self.unsound.saturating_add(1);
        if !run.answered || self.unsound > UNSOUND {
            let longest = if run.answered { LONGEST_PAUSE_ALIVE } else { LONGEST_PAUSE };
            self.pause = self.pause.saturating_mul(2).min(longest);
        }
        self.logd = Logd::Absent { retry: Some(after(now, pause)) };
        let reason = format!("{how}; the next is started in {} ms", pause.as_millis());
        self.publish(&reason, |status| status.restarts = status.restarts.saturating_add(1));
        self.report(Report::Restarted { reason });
    }
}
