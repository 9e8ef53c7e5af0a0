//! The first lines of every process of this file: what it was called, and a floor to stand on.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Which part this process plays; `argv[0]` alone decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Personality {
    Init,
    Logd,
    Probe,
    Apid,
    Load,
    Unpack,
    Inspect,
    Task,
    /// `reboot`, `poweroff`, `halt`.
    Ask(crate::ask::Wish),
}

impl Personality {
    /// The last part of the name decides; whatever is not known is `init`.
    pub fn of(program: &str) -> Personality {
        use crate::ask::Wish;
        match Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default() {
            "kelson-logd" => Personality::Logd,
            kelson_helper::probe::NAME => Personality::Probe,
            "kelson-apid" => Personality::Apid,
            "kelson-load" => Personality::Load,
            kelson_image::NAME => Personality::Unpack,
            kelson_helper::inspect::NAME => Personality::Inspect,
            kelson_helper::task::NAME => Personality::Task,
            "reboot" => Personality::Ask(Wish::Reboot),
            "poweroff" => Personality::Ask(Wish::PowerOff),
            "halt" => Personality::Ask(Wish::Halt),
            _ => Personality::Init,
        }
    }

    /// The name that `ps` shows: a program that is executed from memory would be called after a descriptor's number.
    pub fn process_name(self) -> &'static CStr {
        use crate::ask::Wish;
        match self {
            Personality::Init => c"init",
            Personality::Logd => c"kelson-logd",
            Personality::Probe => c"kelson-probe",
            Personality::Apid => c"kelson-apid",
            Personality::Load => c"kelson-load",
            Personality::Unpack => c"kelson-unpack",
            Personality::Inspect => c"kelson-inspect",
            Personality::Task => c"kelson-task",
            Personality::Ask(Wish::Reboot) => c"reboot",
            Personality::Ask(Wish::PowerOff) => c"poweroff",
            Personality::Ask(Wish::Halt) => c"halt",
        }
    }
}

/// Stands on the floor that Rust's own start would make, less its habit to abort when there is no `/dev/null`: the
/// three standard descriptors are open, a closed pipe is an error instead of a death, and the process has its name.
pub fn settle(personality: Personality) {
    for number in 0..=2 {
        // SAFETY: a system call on a number.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            open_lowest();
        }
    }
    // SAFETY: no other thread runs yet, and ignoring a signal runs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // SAFETY: the name is a C string; the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, personality.process_name().as_ptr()) };
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

/// What this process was started with, for the next `execve`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Wish;

    #[test]
    fn the_name_alone_decides() {
        assert_eq!(Personality::of("/sbin/init"), Personality::Init);
        assert_eq!(Personality::of("/init"), Personality::Init);
        assert_eq!(Personality::of(""), Personality::Init);
        assert_eq!(Personality::of("kelson-logd"), Personality::Logd);
        assert_eq!(Personality::of("kelson-probe"), Personality::Probe);
        assert_eq!(Personality::of("kelson-unpack"), Personality::Unpack);
        assert_eq!(Personality::of("/usr/sbin/reboot"), Personality::Ask(Wish::Reboot));
        assert_eq!(Personality::of("/kelson-task/init"), Personality::Init);
    }
}
