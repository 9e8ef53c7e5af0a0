//! PID 1 re-executes itself: the same PID, the same children, another incarnation of the same host.
//!
//! `execve` keeps the PID, the children with their unseen exits, what is mounted, the signals that wait, and each
//! descriptor that is not marked to close. All else is in `state/`, where it was written before it was acted on. So the
//! old incarnation hands nothing over: it ends in the middle, as it would in a crash, and the new one reads what is
//! there. `docs/recovery.md` tells what becomes of what.
//!
//! [`candidate`] finds the program and tries it before the old incarnation is given up; [`past`] is the first look of a
//! new one.

mod candidate;

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_services::state_store::{Incarnation, Kind, Past, VERSION};
use kelson_spec::service::ResourceLimit;
use kelson_sys::{descriptor, watchdog};
use nix::fcntl::AtFlags;
use serde::{Deserialize, Serialize};

pub use candidate::{Candidate, find};

use crate::boot::history;
use crate::options::Options;
use crate::{crash, entry, rescue};

/// Carries the time of PID 1's start over to its copy in memory and to all later incarnations, in microseconds of
/// CLOCK_MONOTONIC: all times of the state count from there, and a suspended machine does not age them.
const STARTED: &str = "KELSON_STARTED";
/// Carries over how long the machine had been suspended by then, in microseconds.
const SUSPENDED: &str = "KELSON_SUSPENDED";
/// Carries the path by which the first life was executed: a link is followed again each time.
const FILE: &str = "KELSON_FILE";
/// Says that this is not the first life. It says no more: what is not in the state of this very life is not believed.
const AGAIN: &str = "KELSON_AGAIN";
/// The variables that one execution of PID 1 hands to the next.
pub const VARIABLES: [&str; 5] = [STARTED, SUSPENDED, FILE, AGAIN, rescue::VARIABLE];
/// How long a console has to take the last lines of this incarnation.
const LAST_LINES: Duration = Duration::from_millis(500);
/// The version of this program.
pub const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Asks a program whether it reads the state that this one writes; the version follows.
pub const CAN_GO_ON: &str = "--can-go-on-from";

/// The message of one incarnation to the next, beside the state of the host.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReexecState {
    /// How often PID 1 has re-executed itself because somebody asked for it.
    pub count: u32,
    /// How often because it crashed.
    pub crashes: u32,
    /// The initiator of the last one.
    pub reason: String,
    /// The limits that PID 1 raised for itself, as children get them back.
    pub limits: Vec<ResourceLimit>,
    /// Their `oom_score_adj`, where PID 1 has another. Each life finds it out for itself.
    #[serde(skip)]
    pub oom_score: Option<i16>,
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

fn micros(name: &str) -> Option<Duration> {
    variable(name)?.to_str()?.parse().ok().map(Duration::from_micros)
}

/// When PID 1 began, since the kernel's start, where an earlier program of this incarnation says so.
pub fn started() -> Option<Duration> {
    micros(STARTED)
}

/// How long the machine has been suspended since PID 1 began.
pub fn suspended() -> Duration {
    let now = history::suspended();
    now.saturating_sub(micros(SUSPENDED).unwrap_or(now))
}

/// The variables that all later programs of this incarnation find: when PID 1 began, and the file that it began from.
pub fn origin(started: Duration) -> impl Iterator<Item = (&'static str, OsString)> {
    let times = [(STARTED, started), (SUSPENDED, history::suspended())];
    let times = times.map(|(name, time)| (name, OsString::from(time.as_micros().to_string())));
    times.into_iter().chain(executed().map(|file| (FILE, file.into()))).chain(rescue::remembered())
}

/// Sets these variables, unless an earlier program has. Call it while there is one thread.
pub fn remember_origin(started: Duration) {
    if self::started().is_none() {
        for (name, value) in origin(started) {
            // SAFETY: nothing else reads or writes the environment: this is the only thread.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// The path by which this program was executed, its links as they are. Where that does not lead to it (another root, a
/// descriptor), the file itself.
fn executed() -> Option<PathBuf> {
    let own = Path::new("/proc/self/exe");
    let file = std::fs::read_link(own).ok();
    let asked = entry::executed_path().filter(|path| !path.starts_with("/dev") && !path.starts_with("/proc"));
    let asked = asked.filter(|path| is_same_file(path, own));
    asked.or(file)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    identity(one).is_some_and(|found| identity(other) == Some(found))
}

/// The state that the previous incarnation has left. `None`: this is the first, or nothing that it left can
/// be trusted, or the previous incarnation did not reach the services: then the boot is done again.
pub fn past(options: &Options) -> Option<Past> {
    variable(AGAIN)?;
    let life = Incarnation::current().map_err(|error| error.to_string());
    let state = options.runtime_dir.join("state");
    match life.and_then(|life| Past::take(&state, &life).map_err(|doubt| doubt.to_string())) {
        Ok(past) if past.store.has(Kind::ReexecState, "") => Some(past),
        Ok(_) => {
            tracing::warn!("the boot had not come to its services: it is done again");
            None
        }
        Err(doubt) => {
            tracing::error!("{doubt}: the host boots again");
            close_inherited();
            None
        }
    }
}

/// The incarnation before has left children of which nothing is known: the host that boots again would have everything
/// twice. In a container all processes are children of PID 1; this is for one without a folder for its state.
pub fn end_what_is_unknown() {
    if variable(AGAIN).is_some() {
        // Without any there is nobody to signal.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), nix::sys::signal::SIGKILL);
    }
}

/// Closes all that the incarnation before has left open and that nothing describes any more: its lock on the cgroups of
/// the services would keep this host from them, and what runs there from being ended. A watchdog stays open and armed.
fn close_inherited() {
    let inherited = |number: RawFd| {
        // SAFETY: a system call on a number.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        number > 2 && flags >= 0 && flags & libc::FD_CLOEXEC == 0
    };
    for (number, file) in descriptor::open() {
        if inherited(number) && !watchdog::is_device(&file) {
            // SAFETY: nothing in this program owns it: what it opens itself is marked to close.
            unsafe { libc::close(number) };
        }
    }
}

/// The answer to [`CAN_GO_ON`]: what is printed, and the exit status.
pub fn can_go_on(words: &[OsString]) -> (String, i32) {
    let asked = words.get(1).and_then(|word| word.to_str()).and_then(|word| word.parse().ok());
    let text = format!("kelson {OWN_VERSION}\n");
    (text, if asked == Some(VERSION) { 0 } else { 1 })
}

/// The environment for the program of the next incarnation.
pub fn with_mark(environment: Vec<CString>) -> Vec<CString> {
    entry::with_variable(environment, AGAIN, 1)
}

/// Executes the program in place of this one. Returns only if it cannot be: why.
pub fn execute(candidate: &Candidate) -> String {
    let (arguments, environment) = entry::arguments_and_environment();
    let environment = crash::with_page(with_mark(environment));
    let program = candidate.program.as_fd();
    crate::log::settle(LAST_LINES);
    match nix::unistd::execveat(program, c"", &arguments, &environment, AtFlags::AT_EMPTY_PATH) {
        Ok(never) => match never {},
        Err(errno) => format!("execveat: {}", errno.desc()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_knows_the_path_by_which_it_was_executed() {
        let executed = executed().unwrap();
        assert!(executed.is_absolute() && is_same_file(&executed, Path::new("/proc/self/exe")));
        assert_eq!(Some(executed), entry::executed_path());
        assert!(!is_same_file(Path::new("/"), Path::new("/proc/self/exe")));
        assert!(!is_same_file(Path::new("/nowhere"), Path::new("/nowhere")));
    }

    #[test]
    fn a_program_says_whether_it_can_go_on() {
        let asked = |word: &str| can_go_on(&[CAN_GO_ON.into(), word.into()]).1;
        assert_eq!(asked(&VERSION.to_string()), 0);
        assert_eq!(asked(&(VERSION + 1).to_string()), 1);
        assert_eq!(asked("x"), 1);
        assert_eq!(can_go_on(&[CAN_GO_ON.into()]).1, 1);
    }
}
