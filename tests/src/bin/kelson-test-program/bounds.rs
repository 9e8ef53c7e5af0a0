//! The steps that try what a sandbox forbids. None of them changes the machine where it is allowed.

use std::ffi::c_long;
use std::io;
use std::process::Command;

use crate::die;

/// Tries one thing; the line tells whether it was allowed.
pub(crate) fn attempt(name: &str) -> String {
    let done = match name.split_once(':') {
        Some(("exec", path)) => Command::new(path).status().map(drop),
        Some(("see", path)) => std::fs::symlink_metadata(path).map(drop),
        Some(("suid", path)) => {
            let path = std::ffi::CString::new(path).unwrap_or_default();
            call(libc::SYS_fchmodat, [libc::AT_FDCWD.into(), path.as_ptr() as c_long, 0o4755, 0])
        }
        _ => call_of(name),
    };
    match done {
        Ok(()) => format!("{name}: allowed\n"),
        Err(error) => format!("{name}: {error}\n"),
    }
}

fn call_of(name: &str) -> io::Result<()> {
    let invalid = libc::timespec { tv_sec: 0, tv_nsec: -1 };
    let none = libc::sched_param { sched_priority: 0 };
    let (number, arguments) = match name {
        // Refused as invalid by a kernel that would set the clock.
        "clock" => (libc::SYS_clock_settime, [0, (&raw const invalid) as c_long, 0, 0]),
        // There is none of this name.
        "module" => {
            (libc::SYS_delete_module, [c"kelson-none".as_ptr() as c_long, libc::O_NONBLOCK.into(), 0, 0])
        }
        // The size of the buffer.
        "log" => (libc::SYS_syslog, [10, 0, 0, 0]),
        // A length that no name has.
        "hostname" => (libc::SYS_sethostname, [0, -1, 0, 0]),
        // No priority that this policy has.
        "realtime" => (libc::SYS_sched_setscheduler, [0, 1, (&raw const none) as c_long, 0]),
        "personality" => (libc::SYS_personality, [8, 0, 0, 0]),
        "code" => (libc::SYS_mmap, [0, 4096, 7, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS).into()]),
        "memory" => (libc::SYS_mmap, [0, 4096, 3, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS).into()]),
        "uts" => (libc::SYS_unshare, [libc::CLONE_NEWUTS.into(), 0, 0, 0]),
        "ipc" => (libc::SYS_unshare, [libc::CLONE_NEWIPC.into(), 0, 0, 0]),
        "unix" => (libc::SYS_socket, [libc::AF_UNIX.into(), libc::SOCK_STREAM.into(), 0, 0]),
        "netlink" => (libc::SYS_socket, [libc::AF_NETLINK.into(), libc::SOCK_RAW.into(), 0, 0]),
        "sync" => (libc::SYS_sync, [0; 4]),
        "umount" => (libc::SYS_umount2, [c"/kelson-none".as_ptr() as c_long, 0, 0, 0]),
        _ => die(&format!("\"{name}\" is no attempt")),
    };
    call(number, arguments)
}

fn call(number: c_long, [a, b, c, d]: [c_long; 4]) -> io::Result<()> {
    // SAFETY: each pointer lives over the call; what is mapped is not used. The fifth and sixth argument are of mmap.
    match unsafe { libc::syscall(number, a, b, c, d, -1, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
