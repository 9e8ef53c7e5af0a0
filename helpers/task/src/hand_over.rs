//! Descriptors that PID 1 has asked for.

use std::os::fd::{AsFd as _, OwnedFd};

use kelson_sys::rights;

/// Sends each in a message of its own, in this order.
///
/// # Errors
/// A sentence that says what failed and why.
pub fn send(control: &OwnedFd, made: &[OwnedFd], what: &str) -> Result<(), String> {
    made.iter()
        .try_for_each(|one| rights::send(control.as_fd(), b"d", &[one.as_fd()]))
        .map_err(|errno| format!("cannot send its {what}: {}", errno.desc()))
}
