//! The terminal of a further command: one of the container's own, which only its processes can find by a name.

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

use kelson_runner::native::TERMINAL;
use kelson_runner::oci::Process;
use kelson_runner::{Terminal, WindowSize};
use kelson_spec::id_range::IdRange;
use kelson_sys::{rights, terminal};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::error::{At as _, ContainerError};

/// Opens a terminal in this mount namespace, makes it that of this session and its input, output and errors, and sends PID 1
/// the other end.
pub fn take(process: &Process, ids: Option<IdRange>) -> Result<(), ContainerError> {
    let what = || "cannot put the command on a terminal of the container".to_owned();
    // SAFETY: PID 1 gives this process the descriptor, which nothing else of it knows.
    let socket = unsafe { OwnedFd::from_raw_fd(TERMINAL) };
    let size = process.console_size.map(|size| WindowSize { rows: size.height, columns: size.width });
    let owner = IdRange::of_host(ids, process.user.uid);
    let Terminal { ours, theirs } = Terminal::new(size.unwrap_or_default(), owner)?;
    dup2_stdin(&theirs).at(what)?;
    dup2_stdout(&theirs).at(what)?;
    dup2_stderr(&theirs).at(what)?;
    terminal::take(&theirs, false).at(what)?;
    rights::send(socket.as_fd(), b"t", &[ours.as_fd()]).at(what)
}
