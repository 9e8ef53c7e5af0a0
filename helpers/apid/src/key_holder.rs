//! kelson-apid is two processes. The key holder may read the key and takes no connection. The TLS worker takes the
//! connections; it is another user, has no privileges, and gets the key from the key holder.
//!
//! A socket connects them. The key holder sends the files, again whenever they change, and asks the worker every few
//! seconds whether it is alive. Closing the socket ends the worker. When one of the two dies, the other ends too, and
//! PID 1 restarts the service by its policy.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use kelson_helper::notify::notify;
use kelson_helper::signals::termination;
use kelson_helper::user::leave_root;
use kelson_sys::capability;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use super::arguments::Arguments;
use super::material::{CLOSING, FILES, Material, PING, READY, Stamp};
use super::{say, tls_worker};
use crate::error::ApidError;

/// How often the key holder compares the files and asks the worker.
const INTERVAL: Duration = Duration::from_secs(5);
/// A worker that is silent for longer hangs: it waits for no connection.
const SILENT: Duration = Duration::from_secs(20);
/// A worker that takes longer to read a file hangs.
const SENDING: Duration = Duration::from_secs(5);

/// Runs both processes until SIGTERM or SIGINT, or the other process has ended; gives the exit status.
///
/// # Errors
/// When a file cannot be read, or there is no second process.
pub fn run(arguments: &Arguments) -> Result<i32, ApidError> {
    // All that can be wrong with the files is found before anything is open.
    let stamp = Stamp::of(arguments);
    let material = Material::read(arguments)?;
    let (ours, theirs) = UnixStream::pair().map_err(ApidError::Runtime)?;
    let signals = termination().map_err(ApidError::Runtime)?;
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
            KeyHolder {
                arguments,
                stamp,
                socket: ours,
                signals,
                child,
                answered: Instant::now(),
                closing: false,
            }
            .run()
        }
    }
}

/// Becomes the worker's own user, if this is root. All capabilities go with root.
fn put_off_rights(arguments: &Arguments) -> Result<(), ApidError> {
    let Some(user) = arguments.user else { return Ok(()) };
    if !leave_root(user, arguments.group.unwrap_or(user)).map_err(ApidError::Runtime)? {
        // PID 1 knows its own user, and that it calls for others.
        say(&format!("this user namespace has no user {user}: the TLS worker runs as the user of PID 1"));
    }
    Ok(())
}

struct KeyHolder<'a> {
    arguments: &'a Arguments,
    stamp: Stamp,
    socket: UnixStream,
    signals: SignalFd,
    child: Pid,
    /// When the worker last answered.
    answered: Instant,
    closing: bool,
}

impl KeyHolder<'_> {
    fn run(mut self) -> Result<i32, ApidError> {
        if let Err(error) = capability::drop_all().map_err(io::Error::from) {
            say(&format!("the key holder cannot drop its capabilities: {error}"));
        }
        self.socket.set_write_timeout(Some(SENDING)).map_err(ApidError::Runtime)?;
        let mut asked = Instant::now();
        loop {
            let left = INTERVAL.saturating_sub(asked.elapsed());
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
            if !self.closing && asked.elapsed() >= INTERVAL {
                asked = Instant::now();
                if self.answered.elapsed() > SILENT {
                    say(&format!(
                        "the TLS worker has not answered for {} s; PID 1 restarts the service",
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

    /// False: the worker has ended.
    fn listen(&mut self) -> bool {
        let mut words = [0; 64];
        let length = match self.socket.read(&mut words) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(error) => return error.kind() == io::ErrorKind::Interrupted,
        };
        self.answered = Instant::now();
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
            Err(error) => say(&format!("{error}; the current files stay in use")),
        }
    }

    /// A worker that does not read it is found by its silence.
    fn send(&mut self, what: u8, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut frame = vec![what];
        frame.extend(length.to_be_bytes());
        frame.extend(bytes);
        let _ = self.socket.write_all(&frame);
    }

    /// The worker's exit status.
    fn status(&self) -> i32 {
        match waitpid(self.child, None) {
            Ok(WaitStatus::Exited(_, status)) => status,
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                say(&format!("the TLS worker was killed by {signal}"));
                1
            }
            _ => 1,
        }
    }
}

fn tell(state: &str) {
    if let Err(error) = notify(state) {
        say(&format!("cannot send {state} to PID 1: {error}"));
    }
}
