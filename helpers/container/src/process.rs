//! The last steps: what the process may do, and its program.

use std::ffi::CString;
use std::fs;

use kelson_runner::oci::{Process, Rlimit};
use kelson_runner::search_path;
use kelson_runner::seccomp::Filter;
use kelson_spec::service::Attributes;
use kelson_spec::{CAPABILITIES, LIMITS};
use kelson_sys::capability;
use nix::errno::Errno;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, execve, setgroups, setresgid, setresuid};

use crate::error::{At as _, ContainerError};
use crate::tree::text;

/// Becomes the program. `enter_users` enters the user namespace of the container: what comes after it takes no privilege of the
/// host.
pub fn become_program(
    process: &Process,
    is_filtered: bool,
    enter_users: impl FnOnce() -> Result<(), ContainerError>,
) -> Result<std::convert::Infallible, ContainerError> {
    let sets = &process.capabilities;
    let (bounding, held, ambient) = (mask(&sets.bounding)?, mask(&sets.effective)?, mask(&sets.ambient)?);
    let program = Program::of(process)?;
    for limit in &process.rlimits {
        set_limit(limit)?;
    }
    fs::write("/proc/self/oom_score_adj", process.oom_score_adj.to_string())
        .at(|| "cannot set oom_score_adj".to_owned())?;
    enter_users()?;
    crate::root::enter_folder(&process.cwd)?;
    let filter = is_filtered.then(|| Filter::default_profile(held));
    let install = |filter: &Option<Filter>| match filter {
        Some(filter) => filter.install().at(|| "cannot install the seccomp filter".to_owned()),
        None => Ok(()),
    };
    // Without no_new_privs it takes a privilege that goes with the user.
    if !process.no_new_privileges {
        install(&filter)?;
    }
    capability::bound(bounding).at(|| "cannot drop capabilities".to_owned())?;
    take_user(process)?;
    capability::hold(held, ambient).at(|| "cannot set capabilities".to_owned())?;
    if process.no_new_privileges {
        capability::no_new_privileges().at(|| "cannot set no_new_privs".to_owned())?;
        install(&filter)?;
    }
    // Rust's start has it ignored, and a program would inherit that.
    // SAFETY: no handler is set.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }.at(|| "cannot reset a signal".to_owned())?;
    let umask = process.user.umask.unwrap_or(Attributes::UMASK);
    nix::sys::stat::umask(Mode::from_bits_truncate(umask));
    let error = program.execute();
    // This process continues, and may have nobody to report it to.
    // SAFETY: as above.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) };
    Err(error)
}

fn take_user(process: &Process) -> Result<(), ContainerError> {
    let user = &process.user;
    let groups: Vec<Gid> = user.additional_gids.iter().copied().map(Gid::from_raw).collect();
    setgroups(&groups).at(|| "cannot set the groups".to_owned())?;
    let (gid, uid) = (Gid::from_raw(user.gid), Uid::from_raw(user.uid));
    setresgid(gid, gid, gid).at(|| format!("cannot become group {gid}"))?;
    capability::keep_over_user().at(|| "cannot keep capabilities".to_owned())?;
    setresuid(uid, uid, uid).at(|| format!("cannot become user {uid}"))
}

fn mask(names: &[String]) -> Result<u64, ContainerError> {
    names.iter().try_fold(0, |all, name| {
        let short = name.strip_prefix("CAP_").unwrap_or(name).to_ascii_lowercase();
        let number = CAPABILITIES.iter().position(|known| *known == short);
        let bit = number.and_then(|number| 1_u64.checked_shl(u32::try_from(number).ok()?));
        bit.map(|bit| all | bit).ok_or_else(|| ContainerError::Word(name.clone()))
    })
}

fn set_limit(limit: &Rlimit) -> Result<(), ContainerError> {
    let short = limit.kind.strip_prefix("RLIMIT_").unwrap_or(&limit.kind).to_ascii_lowercase();
    let known = LIMITS.iter().find(|(name, _)| *name == short);
    let (_, number) = known.ok_or_else(|| ContainerError::Word(limit.kind.clone()))?;
    let both = libc::rlimit64 { rlim_cur: limit.soft, rlim_max: limit.hard };
    // SAFETY: the limits live over the call.
    let done = unsafe { libc::setrlimit64(*number, &raw const both) };
    Errno::result(done).map(drop).at(|| format!("cannot set the limit {}", limit.kind))
}

/// A program of the container, with its words as the kernel takes them.
struct Program {
    candidates: Vec<CString>,
    words: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    fn of(process: &Process) -> Result<Program, ContainerError> {
        let what = || "a word of the command holds a NUL byte".to_owned();
        let texts = |all: &[String]| all.iter().map(text).collect::<nix::Result<Vec<_>>>().at(what);
        let (words, environment) = (texts(&process.args)?, texts(&process.env)?);
        let name = words.first().ok_or_else(|| ContainerError::Request("without a command it".to_owned()))?;
        let candidates = match name.to_bytes().contains(&b'/') {
            true => vec![name.clone()],
            false => search_path(name, &environment),
        };
        Ok(Program { candidates, words, environment })
    }

    /// Returns only if there is no such program.
    fn execute(&self) -> ContainerError {
        let mut worst = Errno::ENOENT;
        for candidate in &self.candidates {
            match execve(candidate, &self.words, &self.environment) {
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(Errno::EACCES) => worst = Errno::EACCES,
                Err(errno) => {
                    worst = errno;
                    break;
                }
            }
        }
        let path = self.words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        ContainerError::Execute { path, errno: worst }
    }
}
