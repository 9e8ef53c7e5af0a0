//! `reboot`, `poweroff`, `halt`: asking PID 1.
//!
//! Over its socket, which says who asks and answers what is really under way. Where nobody answers there, by signal;
//! with `--force`, past PID 1, straight to the kernel: for a machine on which nothing else works any more.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use kelson_api::client::{Client, Endpoint, Failure};
use kelson_proto::v1::{ShutdownRequest, shutdown_request::Action};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// A request to the running init.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    name: &'static str,
    action: Action,
    /// As [`crate::signals`] understands it.
    signal: Signal,
    mode: RebootMode,
}

pub const REBOOT: Wish = Wish {
    name: "reboot",
    action: Action::Reboot,
    // SIGTERM is another thing to a container.
    signal: Signal::SIGINT,
    mode: RebootMode::RB_AUTOBOOT,
};
pub const POWER_OFF: Wish = Wish {
    name: "poweroff",
    action: Action::Poweroff,
    signal: Signal::SIGUSR2,
    mode: RebootMode::RB_POWER_OFF,
};
pub const HALT: Wish =
    Wish { name: "halt", action: Action::Halt, signal: Signal::SIGUSR1, mode: RebootMode::RB_HALT_SYSTEM };

/// For the answer of PID 1.
const ANSWER: Duration = Duration::from_secs(5);
/// For the disks, before a forced end.
const SYNC: Duration = Duration::from_secs(10);

const USAGE: &str = "\
usage: reboot | poweroff | halt [--force] [--runtime-dir DIR]
Asks Kelson, the init of this host, to stop all services in order and then to reboot, power off or halt.
  -f, --force        do it at once, without stopping anything: what is not written yet is synced for 10 s at most
  --runtime-dir DIR  where the socket of init is (default /run/kelson)
";

/// The words after the name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Arguments {
    force: bool,
    runtime: PathBuf,
}

/// Why the words name nothing to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Usage {
    #[error("{USAGE}")]
    Help,
    #[error("--runtime-dir needs a folder after it\n{USAGE}")]
    NoFolder,
    #[error("\"{0}\" is not known\n{USAGE}")]
    Unknown(String),
}

impl Arguments {
    fn parse(words: &[OsString]) -> Result<Arguments, Usage> {
        let mut found = Arguments { force: false, runtime: PathBuf::from("/run/kelson") };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.to_str() {
                Some("-f" | "--force") => found.force = true,
                Some("--runtime-dir") => {
                    found.runtime = rest.next().ok_or(Usage::NoFolder)?.into();
                }
                Some("-h" | "--help") => return Err(Usage::Help),
                _ => return Err(Usage::Unknown(word.to_string_lossy().into_owned())),
            }
        }
        Ok(found)
    }
}

/// Asks, and returns the exit status: 0 done, 1 failed, 2 usage, 3 not reachable, 4 denied, 5 timed out.
pub fn main(wish: Wish, words: &[OsString]) -> u8 {
    let arguments = match Arguments::parse(words) {
        Ok(arguments) => arguments,
        Err(help @ Usage::Help) => {
            say(&help.to_string());
            return 0;
        }
        Err(wrong) => {
            complain(&wrong.to_string());
            return 2;
        }
    };
    if arguments.force {
        return force(wish);
    }
    match ask(wish, arguments.runtime) {
        Ok(text) => {
            say(&format!("{text}\n"));
            0
        }
        Err(failure @ (Failure::NotReachable(_) | Failure::Lost(_) | Failure::Deadline(_))) => {
            signal(wish, &failure)
        }
        Err(failure) => {
            complain(&format!("{failure}\n"));
            u8::try_from(failure.exit_status()).unwrap_or(1)
        }
    }
}

fn ask(wish: Wish, runtime: PathBuf) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(error.to_string());
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let asking = async {
        let client = Client::connect(&Endpoint::Unix(runtime.join(kelson_proto::call::INIT_SOCKET)), None)?;
        let request = ShutdownRequest { action: wish.action.into(), reason: whoami(wish) };
        let answer = client.machine().shutdown(request).await?;
        Ok(answer.into_inner().message)
    };
    tokio.block_on(async {
        let late = |_| Failure::Deadline(format!("init has not answered within {} s", ANSWER.as_secs()));
        tokio::time::timeout(ANSWER, asking).await.map_err(late)?
    })
}

fn whoami(wish: Wish) -> String {
    format!("{} (PID {}, user {})", wish.name, std::process::id(), nix::unistd::getuid())
}

/// PID 1 handles signals also while its socket does not answer.
fn signal(wish: Wish, failure: &Failure) -> u8 {
    match nix::sys::signal::kill(Pid::from_raw(1), wish.signal) {
        Ok(()) => {
            say(&format!("{failure}; PID 1 was sent {}\n", wish.signal));
            0
        }
        Err(errno) => {
            complain(&format!("{failure}; sending {} to PID 1: {}\n", wish.signal, errno.desc()));
            if errno == nix::errno::Errno::EPERM { 4 } else { 3 }
        }
    }
}

fn force(wish: Wish) -> u8 {
    // A dead disk must not keep the machine up.
    let (done, synced) = mpsc::channel();
    std::thread::spawn(move || {
        nix::unistd::sync();
        let _ = done.send(());
    });
    if synced.recv_timeout(SYNC).is_err() {
        complain("the disks do not answer; going on without them\n");
    }
    match reboot(wish.mode) {
        Ok(never) => match never {},
        Err(errno) => {
            complain(&format!("reboot(2): {}\n", errno.desc()));
            if errno == nix::errno::Errno::EPERM { 4 } else { 1 }
        }
    }
}

fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, Usage> {
        Arguments::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        assert_eq!(parse(&[]), Ok(Arguments { force: false, runtime: "/run/kelson".into() }));
        assert_eq!(
            parse(&["-f", "--runtime-dir", "/r"]),
            Ok(Arguments { force: true, runtime: "/r".into() })
        );
        assert_eq!(parse(&["--help"]), Err(Usage::Help));
        assert_eq!(parse(&["now"]), Err(Usage::Unknown("now".to_owned())));
        assert!(parse(&["--runtime-dir"]).is_err());
    }

    #[test]
    fn nobody_at_the_socket_is_not_reachable() {
        let failure = ask(REBOOT, PathBuf::from("/nonexistent")).unwrap_err();
        assert!(matches!(failure, Failure::NotReachable(_)), "{failure:?}");
    }
}
