//! The orders to logd, the meaning of its messages, and when PID 1 asks whether it still reads.
//!
//! Quiet: the copies of the pipes are armed, the first unread byte wakes PID 1 once. Busy: a timer looks whether
//! something is still unread; a service that writes all the time is then seen by a look a [`LOOK`], not by its lines.
//! If something is, logd has to answer a ping. From the first byte to the next logd it takes [`LOOK`] + [`ANSWER`] +
//! 100 ms, if a pipe fills up meanwhile. As long as none does nobody is held up, and logd keeps what is in its memory:
//! it has [`LONGEST`]. One that only waits for a processor has [`STARVED`]: the next would have none either.
//!
//! While no logd answers, the oldest lines of pipes that fill up are dropped.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launched;
use kelson_helper::supervisor::{self, Duty, End, Expectations, Next, Order, Reply, Status, after};
use kelson_helper::transport::Packet;
use kelson_proto::v1::{self, logd_command, logd_report};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::held::{Held, Lost};
use super::kept::KeptLog;
use super::processor::Shares;
use super::{Judge, LogdStatus, Report};
use crate::error::ServicesError::{Denied, NotNow};

/// From the first unread byte, or the last message, to the next look.
const LOOK: Duration = Duration::from_millis(800);
/// Within so long a ping is answered.
pub const ANSWER: Duration = Duration::from_millis(500);
/// The time limit while no service is held up. Unread output still fits into the queue of the next logd then.
const LONGEST: Duration = Duration::from_millis(1100);
/// The time limit while it waits for a processor.
const STARVED: Duration = Duration::from_secs(10);
/// Without a logd that answers for so long, PID 1 drops the oldest lines of pipes that fill up, and looks again after
/// [`RELIEVE_AGAIN`].
const RELIEVE: Duration = Duration::from_millis(1700);
const RELIEVE_AGAIN: Duration = Duration::from_millis(200);
/// Reports of what was lost come no more often.
const TELL: Duration = Duration::from_secs(1);

/// A message that waits to be sent: numbers and small data, never a pipe.
pub enum Outgoing {
    Run(u64),
    Forget(Arc<str>),
    Directory,
    Verdict { number: u64, refusal: String },
}

pub struct Logs {
    pub held: Held,
    pub directory: PathBuf,
    pub judge: Judge,
    status: watch::Sender<LogdStatus>,
    reports: mpsc::Sender<Report>,
    /// Something was unread at the last look.
    busy: bool,
    /// The PID of logd, and what it had of the processors when it was last asked.
    pid: i32,
    asked: (Instant, Shares),
    /// Since when no logd answers, and when PID 1 looks whether pipes fill up.
    absent: Option<Instant>,
    relieve_at: Option<Instant>,
    /// Losses that are not reported yet.
    lost: HashMap<Arc<str>, Lost>,
    told: Option<Instant>,
}

impl Logs {
    pub fn new(
        directory: PathBuf,
        held: Held,
        status: watch::Sender<LogdStatus>,
        reports: mpsc::Sender<Report>,
    ) -> Logs {
        Logs {
            held,
            directory,
            judge: Arc::new(|_| Err(NotNow("PID 1 is being started; try again in a moment".to_owned()))),
            status,
            reports,
            busy: true,
            pid: 0,
            asked: (Instant::now(), Shares::default()),
            absent: None,
            relieve_at: None,
            lost: HashMap::new(),
            told: None,
        }
    }

    pub fn status(&self) -> LogdStatus {
        self.status.borrow().clone()
    }

    /// Since then no logd answers, unless that is known already.
    pub fn absent(&mut self, since: Instant) {
        self.absent.get_or_insert(since);
    }

    /// Armed only where the next byte is news.
    pub fn watch_pipes(&mut self, up: bool) {
        if if up { !self.busy } else { self.relieve_at.is_none() } {
            self.held.arm();
        } else {
            self.held.disarm();
        }
    }

    /// Something is unread, and logd is there to read it.
    pub fn expect_logd(&mut self) {
        self.busy = true;
    }

    /// Something is unread while no logd answers.
    pub fn relieve_soon(&mut self, now: Instant) {
        let since = self.absent.unwrap_or(now);
        self.relieve_at = Some(after(since, RELIEVE).max(after(now, RELIEVE_AGAIN)));
    }

    /// When [`Logs::relieve`] is to be called.
    pub fn relieve_at(&self) -> Option<Instant> {
        self.relieve_at
    }

    /// While no logd answers: nobody shall block on a pipe that nobody reads.
    pub fn relieve(&mut self, now: Instant) {
        if self.absent.is_none() || self.relieve_at.is_none_or(|at| now < at) {
            return;
        }
        for (service, lost) in self.held.relieve_full() {
            self.lost.entry(service).or_default().add(lost);
        }
        if self.told.is_none_or(|told| now.duration_since(told) >= TELL) {
            self.report_lost(now);
        }
        let more = self.held.any_unread() || !self.lost.is_empty();
        self.relieve_at = more.then(|| after(now, RELIEVE_AGAIN));
    }

    fn report_lost(&mut self, now: Instant) {
        self.told = Some(now);
        for (service, lost) in std::mem::take(&mut self.lost) {
            self.dropped(service, lost, "no kelson-logd was there to read it".into());
        }
    }

    fn dropped(&self, service: Arc<str>, lost: Lost, reason: String) {
        self.status.send_modify(|status| {
            status.dropped_lines = status.dropped_lines.saturating_add(lost.lines);
            status.dropped_bytes = status.dropped_bytes.saturating_add(lost.bytes);
        });
        self.report(Report::Dropped { service, lines: lost.lines, bytes: lost.bytes, reason });
    }

    fn report(&self, report: Report) {
        // Nobody takes them, or not fast enough: the totals are in the status.
        let _ = self.reports.try_send(report);
    }
}

impl Expectations for Logs {
    fn silence(&self) -> Option<Duration> {
        self.busy.then_some(LOOK)
    }

    fn is_due(&mut self) -> bool {
        self.busy = self.held.any_unread();
        self.busy
    }

    fn excuses(&mut self, asked: Duration, now: Instant) -> bool {
        let starved = || {
            let (at, before) = &self.asked;
            Shares::of(self.pid).starved_since(before, now.duration_since(*at))
        };
        (asked < LONGEST && !self.held.any_filling()) || (asked < STARVED && starved())
    }
}

impl Duty for Logs {
    type Order = Outgoing;
    type Command = v1::LogdCommand;
    type Report = v1::LogdReport;

    fn orders(&self) -> Vec<Outgoing> {
        std::iter::once(Outgoing::Directory).chain(self.held.ids().map(Outgoing::Run)).collect()
    }

    fn command(
        &mut self,
        order: &Order<Outgoing>,
        _now: Instant,
    ) -> Option<(v1::LogdCommand, Vec<BorrowedFd<'_>>)> {
        use logd_command::Command;
        let mut descriptors = Vec::new();
        let command = match order {
            Order::Ping => Command::Ping(supervisor::ping()),
            Order::Stop { within } => Command::Stop(supervisor::stop(*within)),
            Order::Own(Outgoing::Run(id)) => {
                let run;
                (run, descriptors) = self.held.message(*id)?;
                Command::Run(run)
            }
            Order::Own(Outgoing::Forget(service)) => {
                Command::Forget(v1::LogdForget { service: service.to_string() })
            }
            Order::Own(Outgoing::Directory) => {
                Command::Directory(v1::LogdDirectory { path: self.directory.display().to_string() })
            }
            Order::Own(Outgoing::Verdict { number, refusal }) => {
                Command::Verdict(v1::LogdVerdict { number: *number, refusal: refusal.clone() })
            }
        };
        Some((v1::LogdCommand { command: Some(command) }, descriptors))
    }

    fn sent(&mut self, order: Order<Outgoing>, result: io::Result<()>, now: Instant) {
        match order {
            Order::Ping => self.asked = (now, Shares::of(self.pid)),
            Order::Own(Outgoing::Run(id)) if result.is_ok() => self.held.handed(id),
            _ => {}
        }
    }

    fn received(
        &mut self,
        Packet { message, descriptors }: Packet<v1::LogdReport>,
        _now: Instant,
    ) -> Reply<Outgoing> {
        match message.report {
            Some(logd_report::Report::Pong(pong)) => return Reply::Pong(pong),
            Some(logd_report::Report::Client(client)) => {
                let judged = match descriptors.first() {
                    Some(socket) => (self.judge)(socket.as_fd()),
                    None => Err(Denied("kelson-logd did not name the caller".to_owned())),
                };
                let refusal = judged.err().map(|why| why.to_string()).unwrap_or_default();
                return Reply::Order(Outgoing::Verdict { number: client.number, refusal });
            }
            Some(logd_report::Report::Ended(ended)) => self.held.ended(ended.id, ended.stderr),
            Some(logd_report::Report::Dropped(dropped)) => {
                let lost = Lost { lines: dropped.lines, bytes: dropped.bytes };
                self.dropped(dropped.service.into(), lost, dropped.reason);
            }
            Some(logd_report::Report::Trouble(trouble)) => {
                self.report(Report::Trouble { text: trouble.message });
            }
            // From a newer logd; it can wait.
            None => {}
        }
        Reply::Nothing
    }

    fn connected(&mut self, control: BorrowedFd<'_>, process: &Launched, restarts: u32) {
        let Launched { pid, start_time, .. } = *process;
        self.held.descriptor_store().keep(control, KeptLog::Control { pid, start_time, restarts });
        (self.pid, self.busy) = (pid, true);
    }

    fn closing(&mut self, control: BorrowedFd<'_>) {
        self.held.let_go(&control);
    }

    fn up(&mut self, now: Instant) {
        (self.absent, self.relieve_at) = (None, None);
        self.report_lost(now);
    }

    fn ended(&mut self, end: &End, now: Instant) {
        // Where it did not answer, nobody has read since the byte that was unread.
        let since = now.checked_sub(LOOK.saturating_add(ANSWER)).filter(|_| end.silent);
        self.absent(since.unwrap_or(now));
        match end.next {
            // Another one was never there.
            Next::Retry(_) => {}
            _ => self.held.taken_back(end.in_order),
        }
        if matches!(end.next, Next::After(_) | Next::Retry(_)) {
            self.report(Report::Restarted { reason: end.message("") });
        }
    }

    fn publish(&mut self, helper: &Status) {
        self.status.send_modify(|status| status.helper = helper.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::forgetful;
    use super::super::held::tests::OPTIONS;
    use super::super::held::{NewRun, pipe};
    use super::*;

    #[test]
    fn while_nobody_is_held_up_logd_has_more_time_for_an_answer() {
        let status = LogdStatus { helper: Status::new(""), dropped_lines: 0, dropped_bytes: 0 };
        let (status, _) = watch::channel(status);
        let mut logs = Logs::new("/".into(), Held::new(forgetful()).unwrap(), status, mpsc::channel(1).0);
        let ((stdout, writer), (stderr, _writer)) = (pipe().unwrap(), pipe().unwrap());
        logs.held.add(NewRun { id: 1, service: "web".into(), run: 1, options: OPTIONS, stdout, stderr });
        let now = Instant::now();
        let millis = Duration::from_millis;
        assert!(logs.excuses(ANSWER, now) && logs.excuses(LONGEST - millis(1), now));
        assert!(!logs.excuses(LONGEST, now));
        nix::unistd::write(&writer, &[b'x'; 40_000]).unwrap();
        assert!(!logs.excuses(ANSWER, now), "a pipe fills up");
        assert!(logs.is_due() && logs.silence() == Some(LOOK));
        // First byte to killed, and 100 ms to the next one.
        assert!(LOOK + ANSWER + millis(100) < millis(1800));
    }
}
