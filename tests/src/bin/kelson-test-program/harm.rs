//! The steps of those who mean no good, or do not know better.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Error, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::ptr;

use crate::{die, number, or_die};

pub(crate) fn fill(path: &str) {
    let mut file = or_die(path, fs::OpenOptions::new().create(true).append(true).open(path));
    // Large pieces first, and then whatever room is left.
    for size in [1 << 20, 4096, 1] {
        let piece = vec![b'.'; size];
        loop {
            match file.write(&piece) {
                Ok(written) if written > 0 => {}
                Err(error) if error.raw_os_error() != Some(libc::ENOSPC) => die(&format!("{path}: {error}")),
                _ => break,
            }
        }
    }
}

/// By this number of seconds; with `@` before it, to this number since 1970.
pub(crate) fn set_clock(value: &str) {
    let (is_absolute, seconds) = match value.strip_prefix('@') {
        Some(seconds) => (true, number::<i64>(seconds)),
        None => (false, number::<i64>(value)),
    };
    // SAFETY: timespec is plain numbers, for which all zeroes is a value; the calls read and write it alone.
    let set = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now);
        now.tv_sec = if is_absolute { seconds } else { now.tv_sec + seconds };
        libc::clock_settime(libc::CLOCK_REALTIME, &raw const now)
    };
    if set != 0 {
        die(&format!("clock: {}", Error::last_os_error()));
    }
}

pub(crate) fn swap_on(device: &str) {
    let path = or_die_string(device);
    // SAFETY: a C string that lives over the call.
    if unsafe { libc::swapon(path.as_ptr(), 0) } != 0 {
        die(&format!("swapon {device}: {}", Error::last_os_error()));
    }
}

pub(crate) fn cover(path: &str) {
    let (target, kind) = (or_die_string(path), or_die_string("tmpfs"));
    // SAFETY: both are C strings; there are no data.
    let mounted =
        unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), libc::MS_RDONLY, ptr::null()) };
    if mounted != 0 {
        die(&format!("cover {path}: {}", Error::last_os_error()));
    }
}

pub(crate) fn mount(value: &str) {
    let words: Vec<CString> = value.splitn(3, ':').map(or_die_string).collect();
    let [kind, source, target] = words.as_slice() else { die("mount=TYPE:DEVICE:PATH") };
    // SAFETY: all are C strings; there are no data.
    let mounted = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, ptr::null()) };
    if mounted != 0 {
        die(&format!("mount {value}: {}", Error::last_os_error()));
    }
}

pub(crate) fn uncover(path: &str) {
    let target = or_die_string(path);
    // SAFETY: it is a C string.
    if unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) } != 0 {
        die(&format!("uncover {path}: {}", Error::last_os_error()));
    }
}

/// A file system whose server answers nothing: a process that asks it for something waits until this process
/// ends.
pub(crate) fn dead_mount(path: &str) {
    let server = or_die("/dev/fuse", File::options().read(true).write(true).open("/dev/fuse"));
    let (target, kind) = (or_die_string(path), or_die_string("fuse"));
    let options = format!("fd={},rootmode=40755,user_id=0,group_id=0", server.as_raw_fd());
    let options = or_die_string(&options);
    // SAFETY: all are C strings, the options too.
    let mounted =
        unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) };
    if mounted != 0 {
        die(&format!("dead-mount {path}: {}", Error::last_os_error()));
    }
    std::mem::forget(server);
}

pub(crate) fn or_die_string(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| die("a zero byte"))
}

pub(crate) fn flood_notify() -> ! {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { die("NOTIFY_SOCKET is not set") };
    let socket = or_die("socket", UnixDatagram::unbound());
    for n in 1_u64.. {
        or_die("NOTIFY_SOCKET", socket.send_to(format!("STATUS={n}").as_bytes(), &path));
    }
    die("all numbers are used up")
}

pub(crate) fn flood_newlines(fd: i32) {
    let text = [b'\n'; 512];
    // SAFETY: the buffer has the given length. Nobody shall be killed by a pipe that nobody reads.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        while libc::write(fd, text.as_ptr().cast(), text.len()) > 0 {}
    }
}
