//! The terminal of a further command in a container. It is one of the container's own devpts, so that the command finds it by
//! its name: `kelson-container` opens it there and sends PID 1's end of it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use kelson_sys::descriptor::Watched;
use kelson_sys::rights;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use crate::exec::{ExecControl, Executing, WindowSize, duplicate};
use crate::process_exec::terminal::resize;
use crate::runner::RunnerError;

/// The descriptor of the helper to which it sends PID 1's end of the terminal.
pub const TERMINAL: i32 = 6;

/// As long as the start of a program may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Where PID 1's end of a terminal arrives.
pub(super) struct Sent(Watched<OwnedFd>);

impl Sent {
    /// It, and the end for the helper.
    pub(super) fn new() -> Result<(Sent, OwnedFd), RunnerError> {
        let failed = |error| RunnerError::system("cannot make a socket for a terminal", &error);
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)
            .map_err(|errno| failed(errno.into()))?;
        Ok((Sent(Watched::reading(ours).map_err(failed)?), theirs))
    }

    /// Waits for it. `None`: the helper has ended without it.
    pub(super) async fn terminal(self) -> Result<Option<OwnedFd>, RunnerError> {
        let late = |_| RunnerError::new("the container has given no terminal within 30 s");
        let sent = tokio::time::timeout(DEADLINE, self.next()).await.map_err(late)?;
        sent.map_err(|error| RunnerError::system("cannot take the terminal of a container", &error))
    }

    async fn next(self) -> io::Result<Option<OwnedFd>> {
        loop {
            let mut ready = self.0.readable().await?;
            match rights::receive(self.0.get_ref().as_fd(), &mut [0; 1]) {
                Ok(mut message) => return Ok(message.descriptors.pop()),
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// A command that is killed unless somebody takes it.
pub(super) struct Begun(Option<Executing>);

impl Begun {
    pub(super) fn new(executing: Executing) -> Begun {
        Begun(Some(executing))
    }

    fn take(&mut self) -> Result<Executing, RunnerError> {
        self.0.take().ok_or_else(|| RunnerError::new("the command was taken before"))
    }

    /// The command as it was begun.
    pub(super) fn on_pipes(mut self) -> Result<Executing, RunnerError> {
        self.take()
    }

    /// The command with PID 1's end of its terminal in the place of its pipes.
    pub(super) fn on_terminal(mut self, terminal: OwnedFd, is_fed: bool) -> Result<Executing, RunnerError> {
        let input = if is_fed { Some(duplicate(&terminal)?) } else { None };
        let output = duplicate(&terminal)?;
        let executing = self.take()?;
        let control = Arc::new(Control { command: executing.control, terminal });
        Ok(Executing { input, output, errors: None, control, ..executing })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(executing) = &self.0 {
            executing.control.kill();
        }
    }
}

/// Acts on a command, and on its terminal.
struct Control {
    command: Arc<dyn ExecControl>,
    terminal: OwnedFd,
}

impl ExecControl for Control {
    fn signal(&self, signal: i32) {
        self.command.signal(signal);
    }

    fn kill(&self) {
        self.command.kill();
    }

    fn resize(&self, size: WindowSize) {
        if let Err(error) = resize(&self.terminal, size) {
            tracing::debug!("cannot resize the terminal of a command in a container: {error}");
        }
    }
}
