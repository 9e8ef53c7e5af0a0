//! PID 1's side of the logs: makes the pipes, hands them to logd, watches that somebody reads them.
//!
//! [`Collector`] is a cheap handle; the work is done by one [driver] future, which has the pipes and a
//! [`Supervisor`](kelson_helper::supervisor::Supervisor) that keeps a logd at work. Nothing here waits for logd: what
//! it has not taken waits in PID 1 as a number, the pipes themselves are held anyway.

mod driver;
mod duty;
mod held;
mod kept;
mod processor;

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kelson_helper::supervisor::{self, Status};
use kelson_helper::{BoxFuture, Launcher};
pub use kept::{DescriptorStore, InheritedLog, KeptLog, forgetful};
use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::error::ServicesError;

/// How the log of a service is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes of one file before it is rotated.
    pub max_size: u64,
    /// Files in all, the current one included.
    pub max_files: u32,
    /// Lines kept in a second; absent: all.
    pub rate_limit: Option<u32>,
    /// Its lines also go to the console.
    pub console: bool,
    /// Its lines also go to PID 1's own output.
    pub copy: Copying,
}

/// Which of its lines logd copies to PID 1's own standard output and error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Copying {
    #[default]
    Nothing,
    Lines,
    /// Each with the name of its service.
    Named,
}

impl Copying {
    /// As a record or a message has it: whether lines are copied, and whether with names.
    pub fn bits(self) -> (bool, bool) {
        (self != Copying::Nothing, self == Copying::Named)
    }

    pub fn of_bits(copied: bool, named: bool) -> Copying {
        match (copied, named) {
            (true, true) => Copying::Named,
            (true, false) => Copying::Lines,
            (false, _) => Copying::Nothing,
        }
    }
}

/// logd as the built-in service `logd` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogdStatus {
    pub helper: Status,
    /// Of all services since PID 1's start.
    pub dropped_lines: u64,
    pub dropped_bytes: u64,
}

/// Something about the logs that is worth an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Lines of a service were lost; at most once a second for each service. `lines` counts newlines.
    Dropped { service: Arc<str>, lines: u64, bytes: u64, reason: String },
    /// Reported by logd once per change.
    Trouble { text: String },
    /// logd was replaced, or could not be started; services go on.
    Restarted { reason: String },
}

/// Decides whether the process at the other end of a socket may read logs.
pub type Judge = Arc<dyn Fn(BorrowedFd<'_>) -> Result<(), ServicesError> + Send + Sync>;

/// A request to the driver.
enum Command {
    Judge(Judge),
    Pipes(Box<held::NewRun>),
    Forget(Arc<str>),
    Directory(PathBuf),
    Restart,
    Shutdown { deadline: Instant, done: oneshot::Sender<()> },
}

/// Hands pipes to logd. Cheap to clone.
#[derive(Clone)]
pub struct Collector {
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<LogdStatus>,
    descriptor_store: Arc<dyn DescriptorStore>,
    /// The id of the last run.
    last: Arc<AtomicU64>,
    /// How many files PID 1 may open.
    most_files: u64,
}

/// Descriptors that PID 1 keeps for itself: without any left it could neither answer nor start a helper.
const RESERVED: u64 = 64;

/// Reports that nobody has taken wait here; further ones are only counted in [`LogdStatus`].
const REPORTS: usize = 256;

impl Collector {
    /// The handle, the driver to be spawned as one task on a runtime with I/O and time, and the reports to be made
    /// events of. The first logd is launched when the driver is first polled; log files live in `directory`.
    /// The driver ends after the last handle is dropped.
    pub fn new(
        launcher: Arc<dyn Launcher>,
        directory: PathBuf,
    ) -> io::Result<(Collector, BoxFuture<'static, ()>, mpsc::Receiver<Report>)> {
        Collector::resume(launcher, directory, forgetful(), Vec::new())
    }

    /// As [`Collector::new`], with what an earlier incarnation of PID 1 has left: its pipes, and a logd that runs. All
    /// that is open is passed to the store.
    pub fn resume(
        launcher: Arc<dyn Launcher>,
        directory: PathBuf,
        descriptor_store: Arc<dyn DescriptorStore>,
        inherited: Vec<InheritedLog>,
    ) -> io::Result<(Collector, BoxFuture<'static, ()>, mpsc::Receiver<Report>)> {
        let (commands, queue) = mpsc::unbounded_channel();
        let (reports, reported) = mpsc::channel(REPORTS);
        let (publish, status) = watch::channel(LogdStatus {
            helper: Status::new("not started yet"),
            dropped_lines: 0,
            dropped_bytes: 0,
        });
        let ids = inherited.iter().map(|one| match one.what {
            KeptLog::Pipe { id, .. } => id,
            KeptLog::Control { .. } => 0,
        });
        let last = Arc::new(AtomicU64::new(ids.max().unwrap_or_default()));
        let held = held::Held::new(Arc::clone(&descriptor_store))?;
        let logs = duty::Logs::new(directory, held, publish, reports);
        let driver = driver::Driver::new(launcher, logs, queue, inherited);
        let (most_files, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let collector = Collector { commands, status, descriptor_store, last, most_files };
        Ok((collector, Box::pin(driver.run()), reported))
    }

    /// Two pipes for a run: the write ends for stdout and stderr. Never waits for logd; fails only when there are no
    /// descriptors left but those that PID 1 keeps for itself.
    pub fn pipes(&self, service: &str, run: u64, options: LogOptions) -> io::Result<(OwnedFd, OwnedFd)> {
        let (stdout, stdout_writer) = held::pipe()?;
        let (stderr, stderr_writer) = held::pipe()?;
        // The kernel gives the lowest number that is free.
        let used = u64::try_from(stderr_writer.as_raw_fd()).unwrap_or_default();
        if used.saturating_add(RESERVED) >= self.most_files {
            let most = self.most_files;
            return Err(io::Error::other(format!(
                "PID 1 may open {most} files, and keeps the last {RESERVED} for itself"
            )));
        }
        let id = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let new = held::NewRun { id, service: service.into(), run, options, stdout, stderr };
        new.keep(&*self.descriptor_store);
        // A driver that is gone means that PID 1 is ending: then nobody collects any more.
        let _ = self.commands.send(Command::Pipes(Box::new(new)));
        Ok((stdout_writer, stderr_writer))
    }

    /// The service is gone permanently: its file is closed once its pipes have ended.
    pub fn forget(&self, service: &str) {
        let _ = self.commands.send(Command::Forget(service.into()));
    }

    /// Log files live here from now on (`/var` became writable); what was written elsewhere moves along.
    pub fn set_directory(&self, path: PathBuf) {
        let _ = self.commands.send(Command::Directory(path));
    }

    /// Clients of logd are asked about here from now on; until then they are refused.
    pub fn admit_by(&self, judge: Judge) {
        let _ = self.commands.send(Command::Judge(judge));
    }

    /// logd as it is now, published at every change.
    pub fn status(&self) -> watch::Receiver<LogdStatus> {
        self.status.clone()
    }

    /// An operator's restart: logd writes what it holds and ends, the next gets the pipes. Not counted.
    pub fn restart(&self) {
        let _ = self.commands.send(Command::Restart);
    }

    /// logd reads what is in the pipes, writes what it holds and ends; at `deadline` it is killed. No other is started
    /// after it.
    pub async fn shutdown(&self, deadline: Instant) {
        supervisor::ask(&self.commands, |done| Command::Shutdown { deadline, done }).await;
    }
}

#[cfg(test)]
mod tests {
    use kelson_helper::{Launched, Start};

    use super::held::tests::OPTIONS;
    use super::*;

    struct Nobody;

    impl Launcher for Nobody {
        fn launch(&self, _: Start) -> BoxFuture<'static, io::Result<Launched>> {
            Box::pin(async { Err(io::ErrorKind::NotFound.into()) })
        }
    }

    #[tokio::test]
    async fn the_last_descriptors_are_left_to_pid_1() {
        let (mut collector, _driver, _reports) = Collector::new(Arc::new(Nobody), "/".into()).unwrap();
        collector.pipes("web", 1, OPTIONS).unwrap();
        // Other tests open and close descriptors at the same time: each number is one too many.
        collector.most_files = RESERVED;
        let refused = collector.pipes("web", 2, OPTIONS).unwrap_err().to_string();
        let most = collector.most_files;
        assert_eq!(refused, format!("PID 1 may open {most} files, and keeps the last 64 for itself"));
    }
}
