//! The first lines of every process of this file: what it was called, and a floor to stand on.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Stands on the floor that Rust's own start would make, less its habit to abort when there is no `/dev/null`: the
/// three standard descriptors are open, a closed pipe is an error instead of a death, and the process has the name that
/// `ps` shows: a program that is executed from memory would be called after a descriptor's number.
pub fn settle(name: &CStr) {
    for number in 0..=2 {
        // SAFETY: a system call on a number.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            open_lowest();
        }
    }
    // SAFETY: no other thread runs yet, and ignoring a signal runs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // SAFETY: the name is a C string; the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Opens something harmless as the lowest free descriptor.
fn open_lowest() {
    // SAFETY: C strings, and constants.
    unsafe {
        if libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) < 0 {
            libc::open(c"/".as_ptr(), libc::O_PATH);
        }
    }
}

/// The path that was given to `execve`, made absolute; its links are not followed. Call it before the working folder changes.
pub fn executed_path() -> Option<PathBuf> {
    // SAFETY: a look-up in what the kernel handed over.
    let place = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    if place.is_null() {
        return None;
    }
    // SAFETY: the kernel put a C string there, which stays as long as the process.
    let path = unsafe { CStr::from_ptr(place) };
    std::path::absolute(OsStr::from_bytes(path.to_bytes())).ok()
}

/// The arguments and the environment of this process, for the next `execve`.
pub fn arguments_and_environment() -> (Vec<CString>, Vec<CString>) {
    let arguments = std::env::args_os().filter_map(|word| CString::new(word.into_vec()).ok()).collect();
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| {
            let mut entry: OsString = name;
            entry.push("=");
            entry.push(value);
            CString::new(entry.as_bytes()).ok()
        })
        .collect();
    (arguments, environment)
}

/// The environment in which this variable stands once, with this value.
pub fn with_variable(mut environment: Vec<CString>, name: &str, value: impl fmt::Display) -> Vec<CString> {
    let name = format!("{name}=");
    environment.retain(|entry| !entry.as_bytes().starts_with(name.as_bytes()));
    environment.extend(CString::new(format!("{name}{value}")));
    environment
}
