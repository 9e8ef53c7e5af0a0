//! The steps of a process that wants to get out of its container.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{Error, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::harm::or_die_string;
use crate::{or_die, pair, put};

/// Files of the kernel by which a process would change the host, or have a program run there.
const FILES: [&str; 11] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/domainname",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/uevent_helper",
    "/sys/power/state",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/release_agent",
];

type Call = (&'static str, fn() -> libc::c_long);

/// Calls with which a process would leave its namespaces, or see or change what is outside.
const CALLS: [Call; 15] = [
    ("mount a tmpfs", || mount(c"tmpfs", c"/", c"tmpfs", 0)),
    ("mount a sysfs", || mount(c"sysfs", c"/sys", c"sysfs", 0)),
    ("make /proc/sys writable", || mount(c"none", c"/proc/sys", c"", libc::MS_REMOUNT | libc::MS_BIND)),
    ("bind /proc/self/root", || mount(c"/proc/self/root", c"/proc", c"", libc::MS_BIND)),
    ("take the mount from /proc/sys", || {
        // SAFETY: a C string.
        unsafe { libc::umount2(c"/proc/sys".as_ptr(), libc::MNT_DETACH) }.into()
    }),
    // SAFETY: numbers alone.
    ("another mount namespace", || unsafe { libc::unshare(libc::CLONE_NEWNS) }.into()),
    // SAFETY: numbers alone.
    ("another cgroup namespace", || unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into()),
    ("a mount as a descriptor", || {
        // SAFETY: a C string and numbers.
        unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), 1) }
    }),
    // SAFETY: a C string and a number.
    ("a file system as a descriptor", || unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0) }),
    ("a file by its handle", by_handle),
    // SAFETY: numbers and an empty list of attributes.
    ("a program for the kernel", || unsafe { libc::syscall(libc::SYS_bpf, 5, std::ptr::null::<u8>(), 0) }),
    // SAFETY: empty texts, which no module is.
    ("a module", || unsafe { libc::syscall(libc::SYS_init_module, c"".as_ptr(), 0, c"".as_ptr()) }),
    // SAFETY: a C string.
    ("a swap", || unsafe { libc::swapon(c"/dev/zero".as_ptr(), 0) }.into()),
    // SAFETY: a C string and its length.
    ("another host name", || unsafe { libc::sethostname(c"out".as_ptr(), 3) }.into()),
    // SAFETY: a number.
    ("all ports of the machine", || unsafe { libc::iopl(3) }.into()),
];

fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong) -> libc::c_long {
    // SAFETY: all are C strings; there are no data.
    unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) }.into()
}

/// The root of the file system below the container's, by the number of its inode.
fn by_handle() -> libc::c_long {
    #[repr(C)]
    struct Handle {
        length: u32,
        kind: i32,
        inode: u64,
    }
    let mut handle = Handle { length: 8, kind: 1, inode: 2 };
    // SAFETY: laid out as `struct file_handle`, and lives over the calls; the descriptor is closed with this process.
    unsafe {
        let at = libc::open(c"/".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
        libc::syscall(libc::SYS_open_by_handle_at, at, &raw mut handle, libc::O_RDONLY)
    }
}

/// A line about each attempt: `done`, or what the kernel says.
pub(crate) fn attempts() -> String {
    let mut text = String::new();
    for path in FILES {
        // Nothing is written: only a file that could be written counts.
        let opened = OpenOptions::new().write(true).open(path);
        let _ = writeln!(
            text,
            "escape {path}: {}",
            opened.map_or_else(|error| error.to_string(), |_| "done".to_owned())
        );
    }
    for (name, call) in CALLS {
        let _ = writeln!(text, "escape {name}: {}", alone(call));
    }
    text
}

/// The result of a call in a process of its own, so that what one achieves helps no other.
fn alone(call: fn() -> libc::c_long) -> String {
    // SAFETY: this program has one thread; the child makes one system call and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let errno = if call() >= 0 { 0 } else { Error::last_os_error().raw_os_error().unwrap_or(255) };
        // SAFETY: it ends this process.
        unsafe { libc::_exit(errno) };
    }
    let mut status = 0;
    // SAFETY: the number is written and lives over the call.
    if child < 0 || unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Error::last_os_error().to_string();
    }
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => "done".to_owned(),
        (true, errno) => Error::from_raw_os_error(errno).to_string(),
        (false, _) => "killed".to_owned(),
    }
}

/// Has two files of a folder change their names, as often as it can, for ever: `swap=A:B`.
pub(crate) fn swap(value: &str) {
    let (one, other) = pair(value);
    let [one, other] = [one, other].map(or_die_string);
    loop {
        // SAFETY: both are C strings.
        let done = unsafe {
            let (one, other) = (one.as_ptr(), other.as_ptr());
            libc::renameat2(libc::AT_FDCWD, one, libc::AT_FDCWD, other, libc::RENAME_EXCHANGE)
        };
        if done != 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Writes into the programs of all other processes that can be opened for that, for ever.
pub(crate) fn overwrite_programs() {
    let own = std::process::id().to_string();
    loop {
        for entry in or_die("/proc", fs::read_dir("/proc")).flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == own || !name.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            let path = entry.path().join("exe");
            let target = fs::read_link(&path).unwrap_or_default();
            if target != Path::new("/program")
                && let Ok(mut file) = OpenOptions::new().write(true).open(&path)
            {
                let written = file.write_all(b"overwritten");
                put(1, &format!("overwrite {}: {written:?}\n", target.display()));
            }
        }
    }
}
