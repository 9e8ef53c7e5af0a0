//! The trait that everything runnable implements, and the words it is spoken to in.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::service::{ExitMatch, Volume};

use crate::deaf::Deaf;
use crate::spawn::{SpawnError, errno_text};

/// How long to wait for processes to end that were sent SIGKILL. One that takes longer sleeps where no signal reaches
/// it (a dead disk): it is left behind and counted.
pub(crate) const KILL_DEADLINE: Duration = Duration::from_secs(2);

pub use futures_util::future::BoxFuture;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Exit status.
    Status(i32),
    /// Killed by this signal.
    Signal { signal: i32, core: bool },
    /// Its status was never learnt (the process vanished between two incarnations of PID 1).
    Lost,
}

impl Exit {
    pub fn success(self) -> bool {
        self == Exit::Status(0)
    }

    pub fn is_among(self, ends: &[ExitMatch]) -> bool {
        ends.iter().any(|end| match (*end, self) {
            (ExitMatch::Status(one), Exit::Status(status)) => i32::from(one) == status,
            (ExitMatch::Signal(one), Exit::Signal { signal, .. }) => i32::from(one) == signal,
            _ => false,
        })
    }
}

/// As words of a sentence: `exited with status 3`, `was killed by SIGSEGV (core dumped)`.
impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Exit::Status(status) => write!(f, "exited with status {status}"),
            Exit::Signal { signal, core } => {
                match nix::sys::signal::Signal::try_from(signal) {
                    Ok(name) => write!(f, "was killed by {name}")?,
                    Err(_) => write!(f, "was killed by signal {signal}")?,
                }
                if core { f.write_str(" (core dumped)") } else { Ok(()) }
            }
            Exit::Lost => f.write_str("ended unseen"),
        }
    }
}

/// Whether another try can help.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ErrorKind {
    /// It can: the restart policy decides.
    #[default]
    Retryable,
    /// It cannot, until the service's file changes.
    Permanent,
    /// It cannot, until the service's file or an archive of images changes.
    Image {
        /// Stands for the archives as they were ([`ImageConfig::archives`](crate::ImageConfig::archives)).
        archives: u32,
    },
}

/// Why a run could not be started or ended as asked. The text is a sentence an operator can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RunnerError {
    pub message: String,
    /// errno, where a system call was the reason.
    pub errno: Option<i32>,
    pub kind: ErrorKind,
    pub origin: Origin,
}

/// The party that failed, as far as that decides the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Host,
    /// It is not there, does not answer in time, or went away meanwhile. Whether it did what was asked is not known.
    ContainerdAway,
    ContainerdRefused,
}

impl RunnerError {
    /// One that no system call was the reason of, and that another try may not meet.
    pub fn new(message: impl Into<String>) -> Self {
        RunnerError::of_kind(ErrorKind::Retryable, message)
    }

    /// One that no system call was the reason of.
    pub fn of_kind(kind: ErrorKind, message: impl Into<String>) -> Self {
        RunnerError { message: message.into(), errno: None, kind, origin: Origin::Host }
    }

    /// The exit status of a program that a system call kept from being started, as a shell has it.
    pub fn exit_status(&self) -> Option<i32> {
        self.errno.map(|errno| if errno == libc::ENOENT { 127 } else { 126 })
    }

    /// `what: why`, as `cannot make cgroup web: permission denied`.
    pub(crate) fn system(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => {
                let message = format!("{what}: {}", errno_text(errno));
                RunnerError { errno: Some(errno), ..RunnerError::new(message) }
            }
            None => RunnerError::new(format!("{what}: {error}")),
        }
    }
}

impl From<SpawnError> for RunnerError {
    fn from(error: SpawnError) -> Self {
        RunnerError { errno: error.errno, ..RunnerError::new(error.text) }
    }
}

/// Namespaces that were made for a service, and that its processes enter. `None`: those of PID 1.
#[derive(Debug, Clone, Default)]
pub struct Namespaces {
    pub mounts: Option<Arc<OwnedFd>>,
    pub network: Option<Arc<OwnedFd>>,
    /// Entered last of all, since it takes what root may do.
    pub users: Option<Arc<OwnedFd>>,
    /// No namespace: the program for its cgroup that tells which devices may be opened there.
    pub devices: Option<Arc<OwnedFd>>,
}

/// The context of one run.
#[derive(Debug)]
pub struct RunContext {
    /// Number of the run; every message from it bears it.
    pub run: u64,
    /// Instead of the spec's, with all else as it is there: a hook before or after the main process.
    pub command: Option<Vec<String>>,
    /// The words of that command are meant as they are, though the spec says `expand`.
    pub literal: bool,
    /// Not as the spec's user, nor confined by its `security`.
    pub as_root: bool,
    /// Write ends of the log pipes; closed in PID 1 once the run is spawned.
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// Added to the spec's environment (`NOTIFY_SOCKET`, `WATCHDOG_USEC`).
    pub environment: Vec<(String, String)>,
    /// Further descriptors, each with its number in the service.
    pub descriptors: Vec<(OwnedFd, i32)>,
    /// Sockets that are held for the service, each with its name.
    pub sockets: Vec<(String, OwnedFd)>,
    /// The standard input that the spec asks for, opened for this run.
    pub input: Option<OwnedFd>,
    pub namespaces: Namespaces,
    /// Those of the spec's volumes whose disks were looked for, with what was found.
    pub found: Vec<Volume>,
}

impl RunContext {
    /// A run of the spec's command, with nothing added.
    pub fn new(run: u64, stdout: OwnedFd, stderr: OwnedFd) -> RunContext {
        RunContext {
            run,
            command: None,
            literal: false,
            as_root: false,
            stdout,
            stderr,
            environment: Vec::new(),
            descriptors: Vec::new(),
            sockets: Vec::new(),
            input: None,
            namespaces: Namespaces::default(),
            found: Vec::new(),
        }
    }
}

/// A run that has begun.
pub struct Running {
    /// 0: it has no process.
    pub pid: i32,
    /// Ticks since boot, field 22 of `/proc/PID/stat`: with the PID it names the process permanently. 0 where the
    /// process had ended before it could be read.
    pub start_time: u64,
    /// The image's own stop signal, where it takes the place of the service file's.
    pub stop_signal: Option<i32>,
    /// Its own ones, where its network is not the host's.
    pub addresses: Vec<IpAddr>,
    /// Ends when the run has; dropping it loses nothing. Record `pid` before polling it: until its first poll the
    /// child also stands in the spawn record that outlives a crash of PID 1.
    pub exit: BoxFuture<'static, Exit>,
}

/// The state of a runner that an earlier incarnation of the same PID 1 recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment {
    /// Number of the run that had begun.
    pub run: u64,
    /// Its main process, by PID and start time as in [`Running`]. PID 0: there was no run, or it had no process.
    pub pid: i32,
    pub start_time: u64,
    /// `open` had begun, and `close` had not succeeded.
    pub opened: bool,
}

/// How a run is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopPlan {
    pub signal: i32,
    /// After the signal, before everything is killed.
    pub timeout: Duration,
}

/// How a run was ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopReport {
    /// It did not end by its signal within the timeout.
    pub killed: bool,
    /// Why the signal did not end it, where the kernel says so. Only of one that was killed.
    pub deaf: Option<Deaf>,
    /// Processes that were still there when the main process had ended by itself.
    pub outlived: u32,
    /// Processes that outlived even SIGKILL (in a sleep that no signal ends); 0 as a rule.
    pub left_behind: u32,
    /// The kernel killed one of its processes because it had reached its memory limit, or the host's end.
    pub out_of_memory: bool,
}

/// Runs one thing, in sequences such as open, run, stop, run, stop, close.
///
/// Every future may be dropped at any time: what it was doing is then undone or ended by the next `stop` or `close`.
pub trait Runner: Send {
    /// Makes what all runs share (a cgroup; a container and its snapshot), leftovers removed first.
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>>;

    /// Starts one run.
    fn run(&mut self, context: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>>;

    /// Ends the run and everything it left: signal, timeout, kill. Without a run it only clears strays away.
    fn stop(&mut self, plan: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>>;

    /// Whether a `stop` of this runner has sent the run's main process a stop signal, also where its future was dropped
    /// later. Signals of an earlier incarnation of PID 1 do not count.
    fn is_signalled(&self) -> bool {
        false
    }

    /// The user and the group of the runs. Known after `open`.
    fn owner(&mut self) -> BoxFuture<'_, Result<(u32, u32), RunnerError>> {
        Box::pin(std::future::ready(Ok((0, 0))))
    }

    /// Takes up what an earlier incarnation of the same PID 1 began, in place of `open` and `run`: what was opened is
    /// known again, and a run that goes on, or ended meanwhile and has left its status, is returned as by `run`.
    ///
    /// `None`: there is no such run (none was named; or the PID is by now a stranger's, which is never
    /// signalled). `stop` still clears its leftovers. One that was not opened is left as it is.
    fn attach(&mut self, attachment: Attachment) -> BoxFuture<'_, Result<Option<Running>, RunnerError>> {
        let _ = attachment;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns once the archives of images are no longer those for which this number stands, and have come to rest.
    /// Only a runner that gives errors of the kind [`ErrorKind::Image`] has such archives.
    fn archives_changed(&mut self, archives: u32) -> BoxFuture<'_, ()> {
        let _ = archives;
        Box::pin(std::future::pending())
    }

    /// The parts of the spec that are not enforced on this host, a sentence each; known after `open`.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// Finds the main process of a run whose command has ended and has left it behind: the one with the PID `named`, or, if
    /// none is named, the only child of PID 1 among the processes of the run. The run ends with it.
    ///
    /// PID 0: several processes could be it, so the run lasts for as long as there is any.
    ///
    /// # Errors
    /// There is no process, or the one that is named is none of the run's.
    fn find_main(&mut self, named: Option<i32>) -> BoxFuture<'_, Result<Running, RunnerError>> {
        let _ = named;
        Box::pin(std::future::ready(Err(RunnerError::new("it leaves no process that could be found"))))
    }

    /// Whether the run has no process left, as far as that is known.
    fn is_empty(&self) -> bool {
        false
    }

    /// Undoes `open`. Always called, also after a failed `open`.
    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>>;
}
