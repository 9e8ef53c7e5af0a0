//! The door is two processes. The keeper may read the key, and does nothing else: it meets nobody. The one that meets
//! strangers is another user, has no rights at all, and gets the key from the keeper.
//!
//! Between them is a socket. The keeper sends the files, again whenever they have changed, and asks every few seconds
//! whether the other is alive; closing the socket ends the door. What of the two dies, the other one ends too, and PID 1
//! begins the service anew by its policy.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use kelson_sys::capability;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Gid, Pid, Uid, fork, geteuid, setgid, setgroups, setuid};

use super::arguments::Arguments;
use super::material::{Material, Stamp};
use super::notify::notify;
use super::{say, tls_worker};
use crate::error::ApidError;

/// What the keeper sends: files, with their length, or a question.
pub const FILES: u8 = b'F';
pub const PING: u8 = b'P';
/// What it is answered.
pub const READY: u8 = b'R';
pub const CLOSING: u8 = b'C';
pub const ALIVE: u8 = b'A';

/// From one look at the files, and one question, to the next.
const TURN: Duration = Duration::from_secs(5);
/// Who does not answer for so long hangs: it looks after each connection in turn and waits for none.
const SILENT: Duration = Duration::from_secs(20);
/// A file is sent within that, or the other one hangs.
const SENDING: Duration = Duration::from_secs(5);

/// Runs the door until SIGTERM or SIGINT, or the other process has ended; gives the exit status.
///
/// # Errors
/// When a file cannot be read, or there is no second process.
pub fn run(arguments: &Arguments) -> Result<i32, ApidError> {
    // All that can be wrong with the files is found before anything is open.
    let stamp = Stamp::of(arguments);
    let material = Material::read(arguments)?;
    let (ours, theirs) = UnixStream::pair().map_err(ApidError::Runtime)?;
    let signals = signals()?;
    // SAFETY: there is one thread in kelson-apid at this moment, so nothing is held that the child would wait for.
    match unsafe { fork() }.map_err(|errno| ApidError::Runtime(errno.into()))? {
        ForkResult::Child => {
            drop((ours, signals));
            let status = match put_off_rights(arguments)
                .and_then(|()| tls_worker::run(arguments, &material, theirs))
            {
                Ok(()) => 0,
                Err(error) => {
                    say(&error.to_string());
                    1
                }
            };
            std::process::exit(status)
        }
        ForkResult::Parent { child } => {
            drop((theirs, material));
            Keeper { arguments, stamp, socket: ours, signals, child, heard: Instant::now(), closing: false }
                .run()
        }
    }
}

fn signals() -> Result<SignalFd, ApidError> {
    let set: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    set.thread_block()
        .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC))
        .map_err(|errno| ApidError::Runtime(errno.into()))
}

/// Becomes the user that the door has for itself, where this is root. All capabilities go with root.
fn put_off_rights(arguments: &Arguments) -> Result<(), ApidError> {
    let Some(user) = arguments.user.filter(|_| geteuid().is_root()) else { return Ok(()) };
    if !is_mapped(user, &std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default()) {
        // PID 1 knows its own user, and that it calls for others.
        say(&format!("this user namespace has no user {user}: the door runs as the user of PID 1"));
        return Ok(());
    }
    let group = Gid::from_raw(arguments.group.unwrap_or(user));
    let changed = setgroups(&[]).and_then(|()| setgid(group)).and_then(|()| setuid(Uid::from_raw(user)));
    changed
        .map_err(|errno| ApidError::Runtime(io::Error::other(format!("cannot become user {user}: {errno}"))))
}

/// Whether a user namespace with this map (user_namespaces(7): first within, first without, how many) has this user.
fn is_mapped(user: u32, map: &str) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<u32>().ok());
        let (first, _, count) = (numbers.next().flatten(), numbers.next(), numbers.next().flatten());
        let after = first.and_then(|first| user.checked_sub(first));
        after.zip(count).is_some_and(|(after, count)| after < count)
    })
}

struct Keeper<'a> {
    arguments: &'a Arguments,
    stamp: Stamp,
    socket: UnixStream,
    signals: SignalFd,
    child: Pid,
    /// When the other one was last heard.
    heard: Instant,
    closing: bool,
}

impl Keeper<'_> {
    fn run(mut self) -> Result<i32, ApidError> {
        if let Err(error) = capability::drop_all().map_err(io::Error::from) {
            say(&format!("the keeper of the door cannot give up its capabilities: {error}"));
        }
        self.socket.set_write_timeout(Some(SENDING)).map_err(ApidError::Runtime)?;
        let mut turn = Instant::now();
        loop {
            let left = TURN.saturating_sub(turn.elapsed());
            let (signalled, spoken) = self.wait(left).map_err(ApidError::Runtime)?;
            if signalled {
                while let Ok(Some(_)) = self.signals.read_signal() {}
                // It sees the end of the socket, and ends.
                self.closing = true;
                let _ = self.socket.shutdown(std::net::Shutdown::Write);
            }
            if spoken && !self.listen() {
                return Ok(self.status());
            }
            if !self.closing && turn.elapsed() >= TURN {
                turn = Instant::now();
                if self.heard.elapsed() > SILENT {
                    say(&format!(
                        "the door has not answered its keeper for {} s and is begun anew",
                        SILENT.as_secs()
                    ));
                    return Ok(1);
                }
                self.look_at_files();
                self.send(PING, &[]);
            }
        }
    }

    /// Whether there is a signal, and whether something can be read.
    fn wait(&self, longest: Duration) -> io::Result<(bool, bool)> {
        let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX);
        let mut waiting = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waiting, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [signals, socket] = waiting.map(|one| one.any().unwrap_or(false));
        Ok((signals, socket))
    }

    /// False: the other one has ended.
    fn listen(&mut self) -> bool {
        let mut words = [0; 64];
        let length = match self.socket.read(&mut words) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(error) => return error.kind() == io::ErrorKind::Interrupted,
        };
        self.heard = Instant::now();
        for word in words.iter().take(length) {
            match *word {
                READY => tell("READY=1"),
                CLOSING => tell("STOPPING=1"),
                _ => {}
            }
        }
        true
    }

    fn look_at_files(&mut self) {
        let stamp = Stamp::of(self.arguments);
        if stamp == self.stamp {
            return;
        }
        self.stamp = stamp;
        match Material::read(self.arguments) {
            Ok(material) => self.send(FILES, &material.to_bytes()),
            Err(error) => say(&format!("{error}; the door goes on with what it has")),
        }
    }

    /// That it does not take it shows by its silence.
    fn send(&mut self, what: u8, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut frame = vec![what];
        frame.extend(length.to_be_bytes());
        frame.extend(bytes);
        let _ = self.socket.write_all(&frame);
    }

    /// How the other one has ended.
    fn status(&self) -> i32 {
        match waitpid(self.child, None) {
            Ok(WaitStatus::Exited(_, status)) => status,
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                say(&format!("the door was killed by {signal}"));
                1
            }
            _ => 1,
        }
    }
}

fn tell(state: &str) {
    if let Err(error) = notify(state) {
        say(&format!("PID 1 cannot be told {state}: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_says_which_users_it_has() {
        let whole = "         0          0 4294967295\n";
        assert!(is_mapped(0, whole) && is_mapped(65_432, whole));
        let alone = "         0       1000          1\n";
        assert!(is_mapped(0, alone) && !is_mapped(65_432, alone));
        let two = "0 1000 1\n65000 165000 500\n";
        assert!(is_mapped(65_432, two) && !is_mapped(65_500, two) && !is_mapped(64_999, two));
        assert!(!is_mapped(0, ""));
    }
}
