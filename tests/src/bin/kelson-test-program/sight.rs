//! The steps that tell what a process sees of itself and of what is around it.

use std::ffi::CString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{number, or_die, pair, put};

pub(crate) fn report(path: &str) {
    let text = gather();
    if path.is_empty() {
        put(1, &text);
    } else {
        // Whole or not at all: who waits for the file finds all of it.
        let draft = format!("{path}.part");
        or_die(&draft, fs::write(&draft, text));
        or_die(path, fs::rename(&draft, path));
    }
}

pub(crate) fn report_of(begin: &str) -> String {
    gather().split_inclusive('\n').filter(|line| line.starts_with(begin)).collect()
}

pub(crate) fn list(folder: &str) -> String {
    let entries = or_die(folder, fs::read_dir(folder));
    let mut names: Vec<String> =
        entries.map(|entry| or_die(folder, entry).file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.iter().map(|name| format!("{name}\n")).collect()
}

/// Since 1970, by the clock.
pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

pub(crate) fn try_to_write(path: &str) -> String {
    match fs::write(path, "") {
        Ok(()) => format!("{path}: written\n"),
        Err(error) => format!("{path}: {error}\n"),
    }
}

/// Of a block device this fails while a file system of it is mounted, in whatever mount namespace.
pub(crate) fn open_exclusively(path: &str) -> String {
    match fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(path) {
        Ok(_) => format!("{path}: free\n"),
        Err(error) => format!("{path}: {error}\n"),
    }
}

pub(crate) fn owner(path: &str) -> String {
    match fs::symlink_metadata(path) {
        Ok(found) => format!("owner {path} {}:{} {:o}\n", found.uid(), found.gid(), found.mode() & 0o7777),
        Err(error) => format!("owner {path}: {error}\n"),
    }
}

pub(crate) fn open_device(numbers: &str) -> String {
    let (major, minor) = pair(numbers);
    let path = CString::new("/node-of-a-device").unwrap_or_default();
    let device = libc::makedev(number(major), number(minor));
    // SAFETY: the path is a C string; the descriptor is not used.
    let opened = unsafe {
        libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, device) == 0
            && libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_NONBLOCK) >= 0
    };
    let error = io::Error::last_os_error();
    // SAFETY: the path is a C string.
    unsafe { libc::unlink(path.as_ptr()) };
    if opened { format!("device {numbers}: opened\n") } else { format!("device {numbers}: {error}\n") }
}

/// The letter that ps shows for each thread: `D` waits for a disk, and no signal ends that.
pub fn threads(pid: &str) -> String {
    let folder = format!("/proc/{pid}/task");
    let mut text = String::new();
    for thread in or_die(&folder, fs::read_dir(&folder)).flatten() {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        text.extend(state.map(|state| format!("{state}\n")));
    }
    text
}

/// `key value` lines.
fn gather() -> String {
    let mut text = String::new();
    let mut descriptors: Vec<i32> = or_die("/proc/self/fd", fs::read_dir("/proc/self/fd"))
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    descriptors.sort_unstable();
    for fd in descriptors {
        // The descriptor that read the folder is closed by now and has no target.
        if let Ok(target) = fs::read_link(format!("/proc/self/fd/{fd}")) {
            let _ = writeln!(text, "fd.{fd} {}", target.display());
        }
    }
    // SAFETY: none of these has preconditions.
    let ids = unsafe { [libc::getpid(), libc::getppid(), libc::getsid(0), libc::getpgrp()] };
    for (name, id) in ["pid", "ppid", "sid", "pgid"].iter().zip(ids) {
        let _ = writeln!(text, "{name} {id}");
    }
    let _ = writeln!(text, "cwd {}", std::env::current_dir().unwrap_or_default().display());
    for (name, value) in std::env::vars_os() {
        let _ = writeln!(text, "env.{} {}", name.to_string_lossy(), value.to_string_lossy());
    }
    for file in ["status", "limits", "cgroup", "oom_score_adj"] {
        let body = fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
        for line in body.lines() {
            let _ = writeln!(text, "{file} {}", line.replace('\t', " "));
        }
    }
    for kind in ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"] {
        if let Ok(target) = fs::read_link(format!("/proc/self/ns/{kind}")) {
            let _ = writeln!(text, "ns.{kind} {}", target.display());
        }
    }
    // SAFETY: getpriority(2) has no preconditions; 0 is this process.
    let _ = writeln!(text, "nice {}", unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) });
    let tty = CString::new("/dev/tty").unwrap_or_default();
    // SAFETY: the path is a C string; the descriptor is not used.
    let _ = writeln!(text, "tty {}", unsafe { libc::open(tty.as_ptr(), libc::O_RDWR | libc::O_NOCTTY) } >= 0);
    text
}
