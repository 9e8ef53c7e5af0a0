//! Descriptors that name a process: one that has ended cannot be mistaken for another with its number.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;

/// `PIDFD_SIGNAL_PROCESS_GROUP`, from Linux 6.9 on.
const WHOLE_GROUP: u32 = 1 << 2;
/// `PIDFD_GET_INFO` for the size of [`Info`].
const GET_INFO: u32 = (3 << 30) | (64 << 16) | (0xff << 8) | 11;
/// The exit code is asked for, and given: from Linux 6.15 on, once the process has been reaped.
const INFO_EXIT: u64 = 1 << 3;

/// `struct pidfd_info` of `<linux/pidfd.h>`, in its first and smallest size.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// The caller must know that the number is still the process's. `None`: there is no such process.
///
/// # Errors
/// When none can be opened (no descriptor is free), which says nothing about the process.
pub fn open(pid: i32) -> io::Result<Option<OwnedFd>> {
    // SAFETY: numbers only.
    match Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) }).map(i32::try_from) {
        // SAFETY: a descriptor that the kernel just made for us.
        Ok(Ok(fd)) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        // The last two: by now a thread of another process has the number.
        Err(Errno::ESRCH | Errno::ENOENT | Errno::EINVAL) => Ok(None),
        Ok(Err(_)) => Err(Errno::EBADF.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// Sends a signal to the process, or, with 0, only asks whether it could be.
///
/// # Errors
/// `ESRCH` where it has ended and been reaped; `EPERM`.
pub fn send(pidfd: &impl AsFd, signal: i32) -> Result<(), Errno> {
    send_with(pidfd, signal, 0)
}

/// Sends a signal to the process; where it has ended nothing happens.
pub fn signal(pidfd: &impl AsFd, signal: i32) {
    let _ = send(pidfd, signal);
}

/// Sends a signal to the process group of the process.
///
/// # Errors
/// `EINVAL` before Linux 6.9, and as [`send`].
pub fn send_to_group(pidfd: &impl AsFd, signal: i32) -> Result<(), Errno> {
    send_with(pidfd, signal, WHOLE_GROUP)
}

fn send_with(pidfd: &impl AsFd, signal: i32, flags: u32) -> Result<(), Errno> {
    let none = std::ptr::null::<u8>();
    let fd = pidfd.as_fd().as_raw_fd();
    // SAFETY: numbers, and a null pointer that the call allows.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, none, flags) };
    Errno::result(sent).map(drop)
}

/// Whether the number is still the process's: it lives, or has not been reaped.
pub fn is_there(pidfd: &impl AsFd) -> bool {
    // One that may not be signalled is there all the same.
    matches!(send(pidfd, 0), Ok(()) | Err(Errno::EPERM))
}

/// Whether the process has ended, reaped or not.
pub fn has_ended(pidfd: &impl AsFd) -> bool {
    let mut polled = libc::pollfd { fd: pidfd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, that lives on this stack; it does not wait.
    let ready = unsafe { libc::poll(&raw mut polled, 1, 0) };
    ready > 0
}

/// How the process ended, as `wait` would have reported, whichever its parent is. `None` where the kernel is older than
/// 6.15, or its parent has not reaped it yet.
pub fn wait_status(pidfd: &impl AsFd) -> Option<i32> {
    let mut info = Info { mask: INFO_EXIT, ..Info::default() };
    let fd = pidfd.as_fd().as_raw_fd();
    // SAFETY: the number names the size of what the pointer points to.
    let told = unsafe { libc::ioctl(fd, libc::c_ulong::from(GET_INFO), &raw mut info) };
    (told == 0 && info.mask & INFO_EXIT != 0).then_some(info.exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_structure_has_its_size() {
        assert_eq!(size_of::<Info>(), 64);
    }

    #[test]
    fn a_process_is_there_until_it_is_reaped() {
        let mut child =
            std::process::Command::new("/bin/cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id().cast_signed();
        let pidfd = open(pid).unwrap().unwrap();
        assert!(is_there(&pidfd) && !has_ended(&pidfd));
        assert_eq!(wait_status(&pidfd), None);
        signal(&pidfd, libc::SIGKILL);
        child.wait().unwrap();
        assert!(!is_there(&pidfd) && has_ended(&pidfd));
        assert_eq!(send(&pidfd, libc::SIGKILL), Err(Errno::ESRCH));
        assert!(matches!(wait_status(&pidfd), None | Some(libc::SIGKILL)));
        assert!(open(pid).unwrap().is_none());
    }
}
