//! Waiting for a device that the kernel has not found yet.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use kelson_sys::netlink;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockProtocol, recv};

/// Where the kernel tells of devices that come and go: a kind of netlink, and its groups.
pub type Source = (SockProtocol, u32);
/// Of any device: a uevent.
pub const DEVICES: Source = (SockProtocol::NetlinkKObjectUEvent, 1);
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

/// Returns true once there is news, false when the time is over.
fn has_news(source: &OwnedFd, left: Duration) -> bool {
    let Ok(timeout) = PollTimeout::try_from(left) else { return false };
    let mut fds = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
    if left.is_zero() || !matches!(poll(&mut fds, timeout), Ok(1)) {
        return false;
    }
    // All that is there: one look answers for all of it. A full buffer (ENOBUFS) is news as well.
    let mut buffer = [0; 4096];
    while recv(source.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT).is_ok() {}
    true
}
