//! Waiting for a device that the kernel has not found yet.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use kelson_sys::netlink;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockProtocol, recv};
use nix::sys::stat::fstat;

/// Where the kernel tells of devices that come and go: a kind of netlink, and its groups.
pub type Source = (SockProtocol, u32);
/// Of any device: a uevent.
pub const DEVICES: Source = (SockProtocol::NetlinkKObjectUEvent, netlink::UEVENTS);
/// Of network interfaces.
pub const INTERFACES: Source = (SockProtocol::NetlinkRoute, libc::RTMGRP_LINK.cast_unsigned());

/// Calls `look` at once and after news from the kernel, until it succeeds, for at most `patience`.
///
/// # Errors
/// The last failure.
pub fn wait<T, E>(
    (protocol, groups): Source,
    patience: Duration,
    mut look: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let deadline = Instant::now().checked_add(patience);
    // Before the first look, so that a device that comes between look and wait is not missed.
    let source = netlink::open(protocol, groups);
    loop {
        let failure = match look() {
            Ok(found) => return Ok(found),
            Err(failure) => failure,
        };
        let left = deadline.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        if !source.as_ref().is_ok_and(|source| has_news(source, left)) {
            return Err(failure);
        }
    }
}

/// Returns true once there is news, false when the time is over or nobody waits for the answer any more.
fn has_news(source: &OwnedFd, left: Duration) -> bool {
    let Ok(timeout) = PollTimeout::try_from(left) else { return false };
    let output = std::io::stdout();
    let mut watched = vec![PollFd::new(source.as_fd(), PollFlags::POLLIN)];
    if is_pipe(output.as_fd()) {
        watched.push(PollFd::new(output.as_fd(), PollFlags::empty()));
    }
    if left.is_zero() || poll(&mut watched, timeout).unwrap_or(0) == 0 {
        return false;
    }
    let [news, reader @ ..] = watched.as_slice() else { return false };
    // The reader of a pipe that has gone away.
    if reader.iter().any(|reader| reader.any() == Some(true)) || news.any() != Some(true) {
        return false;
    }
    // All that is there: one look answers for all of it. A full buffer (ENOBUFS) is news as well.
    let mut buffer = [0; 4096];
    while recv(source.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT).is_ok() {}
    true
}

fn is_pipe(output: BorrowedFd<'_>) -> bool {
    fstat(output).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO)
}

#[cfg(test)]
mod tests {
    use std::io::pipe;

    use super::*;

    #[test]
    fn a_pipe_is_known() {
        let (reader, _writer) = pipe().unwrap();
        assert!(is_pipe(reader.as_fd()));
        assert!(!is_pipe(std::fs::File::open("/dev/null").unwrap().as_fd()));
    }
}
