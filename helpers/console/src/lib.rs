//! `kelson-console`: gives a program a terminal of the machine, as getty gives one to login. The program is kelsonctl's
//! dashboard, or a shell of root for somebody who sits at the machine.
//!
//! It becomes that program, and PID 1 starts it again whenever that ends. An image without the program is no fault: then
//! it reports that and waits to be stopped.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod terminal;

use std::ffi::{CString, OsString};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use kelson_helper::signals::termination;
use kelson_spec::machine::ConsoleShow;
use kelson_spec::names::DEFAULT_PATH;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{AccessFlags, access, chdir, execve};

use terminal::Terminal;

/// `argv[0]`.
pub const NAME: &str = "kelson-console";
/// The variables of PID 1's environment for its services that the program has too.
const KEPT: [&str; 2] = ["LANG", "KELSON_ENDPOINT"];

/// Becomes the program that the first word names, on the terminal that the second names, else on the machine's console.
/// Returns the exit status if that fails.
pub fn main(words: &[OsString]) -> i32 {
    let mut words = words.iter().filter_map(|word| word.to_str());
    let show = words.next().and_then(ConsoleShow::named);
    let Some(show) = show else {
        eprintln!("{NAME}: the first word says what to show: dashboard or shell");
        return 2;
    };
    let Some(program) = find(show, DEFAULT_PATH) else {
        let (what, names) = (show.name(), show.programs().join(" or "));
        eprintln!("no {what}: this image has no {names} in {DEFAULT_PATH}");
        return wait();
    };
    let outcome = Terminal::find(words.next(), Path::new("/sys"))
        .and_then(|terminal| terminal.take().map(|()| terminal))
        .map_err(|error| error.to_string())
        .and_then(|terminal| start(show, &program, &terminal));
    match outcome {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn find(show: ConsoleShow, path: &str) -> Option<PathBuf> {
    show.places(path).find(|program| program.is_file() && access(program, AccessFlags::X_OK).is_ok())
}

fn arguments(show: ConsoleShow, program: &Path) -> Vec<String> {
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match show {
        ConsoleShow::Dashboard => vec![name, "dashboard".to_owned()],
        // The dash makes it a login shell, which reads /etc/profile.
        ConsoleShow::Shell => vec![format!("-{name}")],
    }
}

fn start(show: ConsoleShow, program: &Path, terminal: &Terminal) -> Result<std::convert::Infallible, String> {
    let kept = KEPT.iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
    let own = [format!("PATH={DEFAULT_PATH}"), format!("TERM={}", terminal.kind()), "HOME=/root".to_owned()];
    let words = |words: Vec<String>| words.into_iter().filter_map(|word| CString::new(word).ok()).collect();
    let (arguments, environment): (Vec<CString>, Vec<CString>) =
        (words(arguments(show, program)), words(own.into_iter().chain(kept).collect()));
    // An image without this folder has another one.
    let _ = chdir("/root").or_else(|_| chdir("/"));
    let file = CString::new(program.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())?;
    execve(&file, &arguments, &environment)
        .map_err(|errno| format!("{} cannot be executed: {}", program.display(), errno.desc()))
}

/// Returns once PID 1 ends it.
fn wait() -> i32 {
    let Ok(signals) = termination() else { return 1 };
    let mut watched = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    while poll(&mut watched, PollTimeout::NONE) == Err(nix::errno::Errno::EINTR) {}
    0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_best_program_that_can_be_executed_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        let path = format!("{}:{}", one.display(), other.display());
        let make = |file: &Path, mode| {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        assert_eq!(find(ConsoleShow::Shell, &path), None);
        make(&one.join("sh"), 0o644);
        std::fs::create_dir_all(one.join("bash")).unwrap();
        assert_eq!(find(ConsoleShow::Shell, &path), None);
        make(&one.join("sh"), 0o755);
        assert_eq!(find(ConsoleShow::Shell, &path), Some(one.join("sh")));
        make(&other.join("bash"), 0o755);
        assert_eq!(find(ConsoleShow::Shell, &path), Some(other.join("bash")));
        assert_eq!(find(ConsoleShow::Dashboard, &path), None);
    }

    #[test]
    fn a_shell_is_a_login_shell_and_the_dashboard_a_command() {
        assert_eq!(arguments(ConsoleShow::Shell, Path::new("/bin/sh")), ["-sh"]);
        let words = arguments(ConsoleShow::Dashboard, Path::new("/usr/bin/kelsonctl"));
        assert_eq!(words, ["kelsonctl", "dashboard"]);
    }
}
