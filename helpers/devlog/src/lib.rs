//! `kelson-devlog`: receives the messages of syslog(3) at `/dev/log` and writes each as one line to its standard output,
//! where logd collects them like the output of any service.
//!
//! Any process may send a message, so none is trusted: it is bounded, and no character of it acts on a terminal. Nor does
//! a sender ever wait for the log: lines for which logd has no room are counted and dropped.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::indexing_slicing))]

mod message;

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kelson_helper::notify::notify;
use kelson_helper::signals::termination;
use kelson_helper::user::leave_root;
use kelson_spec::service::Credentials;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use message::{LINE_MAX, line};

/// `argv[0]`.
pub const NAME: &str = "kelson-devlog";
/// Where syslog(3) sends messages.
const SOCKET: &str = "/dev/log";
/// Names, in the environment, another socket.
const VARIABLE: &str = "DEVLOG_SOCKET";
/// How long dropped messages may stay unreported while no other message comes, in milliseconds.
const REPORT: u8 = 100;
/// How long messages that were sent before SIGTERM are read.
const LAST: Duration = Duration::from_secs(1);

/// Receives messages until SIGTERM. Returns the exit status.
pub fn main() -> i32 {
    let socket = PathBuf::from(std::env::var_os(VARIABLE).unwrap_or_else(|| SOCKET.into()));
    match serve(&socket) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{}: {error}", socket.display());
            1
        }
    }
}

fn serve(path: &Path) -> io::Result<()> {
    let socket = listen(path)?;
    socket.set_nonblocking(true)?;
    let signals = termination()?;
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    // Another user may not reach the notify socket.
    notify("READY=1")?;
    if !leave_root(Credentials::NOBODY, Credentials::NOBODY)? {
        eprintln!("this user namespace has no user {}: it stays root", Credentials::NOBODY);
    }
    let mut lines = Lines { output, dropped: 0 };
    // A message that fills it makes a line that is cut.
    let mut buffer = vec![0; LINE_MAX.saturating_mul(2)];
    // devlog reads the messages that arrived before SIGTERM. A sender that keeps sending does not delay the end.
    let mut end: Option<Instant> = None;
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => lines.write(&line(buffer.get(..length).unwrap_or_default()))?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                lines.report_dropped()?;
                if end.is_some() && lines.dropped == 0 {
                    return Ok(());
                }
                let timeout = if lines.dropped > 0 { REPORT.into() } else { PollTimeout::NONE };
                let watched = [socket.as_fd(), signals.as_fd()];
                poll(&mut watched.map(|watched| PollFd::new(watched, PollFlags::POLLIN)), timeout)?;
            }
            Err(error) => return Err(error),
        }
        if end.is_none() && signals.read_signal()?.is_some() {
            end = Instant::now().checked_add(LAST);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(());
        }
    }
}

/// Binds the socket so that every user may send to it. A socket or a link that leads to no program is replaced.
///
/// # Errors
/// When another program receives messages there, or the path is no socket and no link.
fn listen(path: &Path) -> io::Result<UnixDatagram> {
    let errno = UnixDatagram::unbound()?.connect(path).err().and_then(|error| error.raw_os_error());
    match errno.map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ECONNREFUSED) => {}
        // The latter is the answer of a stream socket.
        None | Some(Errno::EPROTOTYPE) => {
            return Err(io::Error::new(ErrorKind::AddrInUse, "another program receives messages there"));
        }
        Some(errno) => return Err(errno.into()),
    }
    if let Ok(found) = fs::symlink_metadata(path).map(|metadata| metadata.file_type()) {
        if !found.is_socket() && !found.is_symlink() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "it is not a socket; remove it"));
        }
        fs::remove_file(path)?;
    }
    let socket = UnixDatagram::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(socket)
}

/// Writes lines where that takes no time.
struct Lines<W> {
    output: W,
    /// Messages that were dropped and are not reported yet.
    dropped: u64,
}

impl<W: Write> Lines<W> {
    fn write(&mut self, line: &str) -> io::Result<()> {
        self.report_dropped()?;
        if self.dropped > 0 || !self.put(line)? {
            self.dropped = self.dropped.saturating_add(1);
        }
        Ok(())
    }

    fn report_dropped(&mut self) -> io::Result<()> {
        if self.dropped > 0 {
            let report = format!(
                "syslog.warning devlog: {} messages were dropped here: logd did not take them\n",
                self.dropped
            );
            if self.put(&report)? {
                self.dropped = 0;
            }
        }
        Ok(())
    }

    /// Whether there was room. A pipe takes [`LINE_MAX`] bytes as a whole or not at all.
    fn put(&mut self, line: &str) -> io::Result<bool> {
        match self.output.write(line.as_bytes()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_that_nobody_serves_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let refusal = |path: &Path| listen(path).unwrap_err().to_string();
        let socket = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        assert_eq!(refusal(&path), "another program receives messages there");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(refusal(&link), "another program receives messages there");
        drop(socket);
        drop(listen(&path).unwrap());
        listen(&link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().file_type().is_socket());

        let stream = folder.path().join("stream");
        let _served = UnixListener::bind(&stream).unwrap();
        assert_eq!(refusal(&stream), "another program receives messages there");
        let file = folder.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert_eq!(refusal(&file), "it is not a socket; remove it");
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }

    #[test]
    fn lines_without_room_are_dropped_and_counted_in_their_place() {
        let (mut reader, output) = io::pipe().unwrap();
        fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let mut lines = Lines { output, dropped: 0 };
        let line = format!("{}\n", "x".repeat(LINE_MAX - 1));
        let mut written = 0;
        while lines.dropped < 3 {
            lines.write(&line).unwrap();
            written += 1;
        }
        let mut text = vec![0; (written - 3) * LINE_MAX];
        reader.read_exact(&mut text).unwrap();
        lines.report_dropped().unwrap();
        lines.write("next\n").unwrap();
        drop(lines);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(
            rest,
            "syslog.warning devlog: 3 messages were dropped here: logd did not take them\nnext\n"
        );
    }
}
