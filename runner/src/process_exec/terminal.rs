//! A terminal for a command: PID 1 keeps the one end, the command gets the other.
//!
//! Only devpts is touched, a file system in memory. The other end is opened by its first and not by a name, so that
//! it is the right one whatever stands at `/dev/pts` meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::unistd::{Uid, fchown};

use crate::exec::WindowSize;
use crate::runner::RunnerError;

/// Unlocks the other end. The C libraries have no name for it on all architectures.
const TIOCSPTLCK: libc::c_ulong = 0x4004_5431;
/// Opens the other end.
const TIOCGPTPEER: libc::c_ulong = 0x5441;

/// Both ends.
pub struct Terminal {
    /// PID 1's: what is read from it never waits.
    pub ours: OwnedFd,
    pub theirs: OwnedFd,
}

impl Terminal {
    /// A terminal of this size that belongs to `owner`, who may open it by its name too.
    ///
    /// # Errors
    /// When this mount namespace has no `/dev/ptmx`, or that gives no terminal.
    pub fn new(size: WindowSize, owner: Option<u32>) -> Result<Terminal, RunnerError> {
        let make = || {
            // Without O_NOCTTY it could become PID 1's own.
            let flags = libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC;
            let ours: OwnedFd =
                File::options().read(true).write(true).custom_flags(flags).open("/dev/ptmx")?.into();
            let theirs = other_end(&ours)?;
            resize(&ours, size)?;
            if let Some(uid) = owner {
                // Where this process may not give it away, the command still has it open.
                if let Err(errno) = fchown(&theirs, Some(Uid::from_raw(uid)), None) {
                    tracing::debug!("cannot give a terminal to user {uid}: {errno}");
                }
            }
            Ok(Terminal { ours, theirs })
        };
        make().map_err(|error: io::Error| {
            RunnerError::system("cannot make a terminal (/dev/pts must be mounted)", &error)
        })
    }
}

fn other_end(ours: &OwnedFd) -> io::Result<OwnedFd> {
    let unlocked: libc::c_int = 0;
    // SAFETY: it reads one int, which lives on this stack.
    Errno::result(unsafe { libc::ioctl(ours.as_raw_fd(), TIOCSPTLCK as _, &raw const unlocked) })?;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: it takes flags alone.
    let theirs = Errno::result(unsafe { libc::ioctl(ours.as_raw_fd(), TIOCGPTPEER as _, flags) })?;
    // SAFETY: a descriptor that the kernel just made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(theirs) })
}

/// The kernel tells the processes in front of the terminal (SIGWINCH).
pub(crate) fn resize(terminal: &OwnedFd, size: WindowSize) -> io::Result<()> {
    Ok(kelson_sys::terminal::resize(terminal, size.rows, size.columns)?)
}
