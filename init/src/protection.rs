//! Protects PID 1 on a machine that runs short of memory: the kernel ends other processes instead, and PID
//! 1's memory stays in RAM, so that it never waits for swap on a disk that may be dead.
//!
//! A container has this from its host, or has it not: that is the host's to say. Neither outlives an `execve` as it is
//! to be: the locks go with the old program, so each incarnation locks again; `oom_score_adj` stays, and so children
//! are given another, in all incarnations.

use std::fs;
use std::io;

use kelson_sys::{capability, process::Status};
use nix::errno::Errno;

use crate::options::Mode;

/// This process's own `oom_score_adj`.
const OOM_SCORE: &str = "/proc/self/oom_score_adj";
/// Never chosen.
const NEVER: &str = "-1000";
/// `oom_score_adj` of what PID 1 starts: what the kernel gives to PID 1 itself at first.
const OF_CHILDREN: i16 = 0;

/// Protects PID 1. Returns the `oom_score_adj` that its children are to be given; `None`: that of PID 1.
pub fn protect(mode: Mode) -> Option<i16> {
    if mode == Mode::Container {
        return None;
    }
    if let Err(error) = lock() {
        tracing::warn!("PID 1 may wait for swap where memory is short: {error}");
    }
    match fs::write(OOM_SCORE, NEVER) {
        Ok(()) => Some(OF_CHILDREN),
        Err(error) => {
            tracing::warn!("{OOM_SCORE}: {error}");
            None
        }
    }
}

fn lock() -> io::Result<()> {
    if Status::read("self")?.mask("CapEff").unwrap_or_default() & capability::IPC_LOCK == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    lock_all()
}

fn lock_all() -> io::Result<()> {
    // A page is locked once it is used, and not fetched for the sake of it.
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: a number.
    Errno::result(unsafe { libc::mlockall(flags) })?;
    Ok(())
}

/// Does what gives memory back, which the kernel refuses for locked pages.
pub fn unlocked(work: impl FnOnce()) {
    let locked = Status::read("self").is_ok_and(|status| is_locked(&status));
    if locked {
        // SAFETY: no arguments. Should it fail, nothing is given back.
        unsafe { libc::munlockall() };
    }
    work();
    if locked && let Err(error) = lock_all() {
        tracing::warn!("PID 1 may wait for swap where memory is short: {error}");
    }
}

fn is_locked(status: &Status) -> bool {
    status.field("VmLck").is_some_and(|size| !size.starts_with("0 "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_left_as_it_is() {
        let before = fs::read_to_string(OOM_SCORE).unwrap();
        assert_eq!(protect(Mode::Container), None);
        assert_eq!(fs::read_to_string(OOM_SCORE).unwrap(), before);
    }

    #[test]
    fn the_kernels_words_are_understood() {
        let is_locked = |text: &str| super::is_locked(&Status::new(text.to_owned()));
        assert!(!is_locked("Name:\tinit\nVmLck:\t       0 kB\n"));
        assert!(is_locked("VmLck:\t   10240 kB\n"));
        assert!(!is_locked(""));
    }

    /// Without a lock nothing is locked afterwards either.
    #[test]
    fn work_is_done_without_a_lock_too() {
        let mut done = false;
        unlocked(|| done = true);
        assert!(done);
        assert!(!is_locked(&Status::read("self").unwrap()));
    }
}
