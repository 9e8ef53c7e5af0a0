//! Running a further command where a service runs: its health checks, and an operator's `exec`.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::runner::{BoxFuture, Exit, Namespaces, RunnerError};

/// Runs commands beside a service's main process: in its cgroup and namespaces, with its user, environment, limits and
/// confinement. Knows one run; of a run that has ended it refuses.
pub trait Executor: Send + Sync {
    /// Starts a command. Dropping the future ends whatever it began.
    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>>;
}

/// Write ends for the output and the errors of a command.
pub type Outputs = (OwnedFd, OwnedFd);

/// A command to run beside a service.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest {
    /// Program and arguments, never empty.
    pub command: Vec<String>,
    /// Added to the service's environment.
    pub environment: Vec<(String, String)>,
    pub namespaces: Namespaces,
    /// As root and without the service's `security`.
    pub as_root: bool,
    /// Its words are meant as they are, though the service's file says `expand`.
    pub literal: bool,
    /// Its input is kept open for the caller; otherwise it is `/dev/null`.
    pub input: bool,
    /// It gets a terminal of this size, and input, output and errors are one.
    pub terminal: Option<WindowSize>,
    /// Where its output goes, instead of to the caller. Not with a terminal.
    pub outputs: Option<Arc<Outputs>>,
}

/// Rows and columns of a terminal, in characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowSize {
    pub rows: u16,
    pub columns: u16,
}

/// A command that runs.
pub struct Executing {
    pub pid: i32,
    /// Write end of its input, or of its terminal. `None` where none was asked for.
    pub input: Option<OwnedFd>,
    /// Read end of its output, or of its terminal. It ends at once where the output goes elsewhere.
    pub output: OwnedFd,
    /// Read end of its errors; `None` with a terminal.
    pub errors: Option<OwnedFd>,
    /// Ends when it has; dropping it ends nothing.
    pub exit: BoxFuture<'static, Exit>,
    pub control: Arc<dyn ExecControl>,
}

/// Kills a command, with all that it started, once nobody waits for it.
pub struct Leash(pub Arc<dyn ExecControl>);

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// Controls a running command. Each method returns at once, and does nothing after the command's end.
pub trait ExecControl: Send + Sync {
    /// Sends a signal to the command's process.
    fn signal(&self, signal: i32);
    /// Kills the command and all that it started, as far as they have not left its process group.
    fn kill(&self);
    fn resize(&self, size: WindowSize);
}

impl ExecRequest {
    /// # Errors
    /// When there is nothing to run.
    pub(crate) fn check(&self) -> Result<(), RunnerError> {
        if self.command.is_empty() { Err(RunnerError::new("there is no command to run")) } else { Ok(()) }
    }
}

/// One more descriptor of the same thing.
pub(crate) fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, RunnerError> {
    fd.try_clone().map_err(|error| RunnerError::system("cannot make a descriptor for a command", &error))
}

/// An end of a pipe.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Read,
    Write,
}

/// A pipe whose named end never waits: that is PID 1's. The command's end is as usual. The read end comes first.
pub(crate) fn pipe(ours: End) -> Result<(OwnedFd, OwnedFd), RunnerError> {
    let make = || {
        let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let end = match ours {
            End::Read => &read,
            End::Write => &write,
        };
        fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok((read, write))
    };
    make().map_err(|errno: Errno| RunnerError::system("cannot make a pipe for a command", &errno.into()))
}
