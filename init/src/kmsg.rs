//! One way out for every line: the kernel's log, or stderr where that is not ours.
//!
//! A line for `/dev/kmsg` is one write(2) of at most [`LINE_MAX`] bytes with the level before it; the kernel cuts or
//! refuses longer ones. Nothing here ever waits: the reader may have stopped (a pipe, a terminal, a serial line), and
//! PID 1 has its own descriptor of it that does not block. Lines that could not be written are counted, and reported
//! with the next line that can.
//!
//! The kernel's log is another matter: a writer may have to print its content on the console, and that
//! takes a second a line on a serial line that nobody reads. So there is a thread for that ([`writer`]).

mod writer;

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kelson_sys::kernel_log;
use kelson_sys::text::start_of;
use tracing::Level;

use writer::Writer;

/// Longest text of one line. The kernel's own limit is 1024 less its header (`LOG_LINE_MAX`).
pub const LINE_MAX: usize = 900;

/// Where the lines go.
#[derive(Debug)]
pub struct Console {
    /// Only ever opened in machine mode: in a container it would be the host's.
    kmsg: OnceLock<File>,
    use_kmsg: bool,
    /// Our own descriptor of what stderr is; `None` where it cannot be opened.
    stderr: OnceLock<Option<File>>,
    dropped: AtomicU32,
    /// The thread that writes to the kernel's log. `None`: the caller writes itself.
    writer: OnceLock<Writer>,
}

impl Console {
    pub fn new(use_kmsg: bool) -> Console {
        Console {
            kmsg: OnceLock::new(),
            use_kmsg,
            stderr: OnceLock::new(),
            dropped: AtomicU32::new(0),
            writer: OnceLock::new(),
        }
    }

    /// Writes one message, over several lines where it is long or has line ends. Never waits.
    pub fn write(&self, level: Level, text: &str) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 && !self.pass_on(Level::WARN, &format!("{dropped} lines of this log were lost")) {
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
        for line in split(text) {
            if !self.pass_on(level, line) {
                self.lost();
            }
        }
    }

    fn lost(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn pass_on(&self, level: Level, line: &str) -> bool {
        match self.writer.get() {
            Some(writer) => writer.take(level, line),
            None => self.line(level, line),
        }
    }

    /// From now on a thread writes to the kernel's log. For one that has none nothing changes.
    ///
    /// # Errors
    /// When there can be no thread: then each caller writes itself, as before.
    pub fn write_from_a_thread(&'static self) -> std::io::Result<()> {
        if self.use_kmsg && self.writer.get().is_none() {
            let _ = self.writer.set(Writer::begin(|level, line| {
                if !self.line(level, line) {
                    self.lost();
                }
            })?);
        }
        Ok(())
    }

    /// Waits until all lines are written, at most `patience`. False: not all of them are.
    pub fn settle(&self, patience: Duration) -> bool {
        self.writer.get().is_none_or(|writer| writer.settle(patience))
    }

    /// From now on the kernel prints nothing but its emergencies: on a console that takes nothing, that would be waited
    /// for.
    pub fn print_no_more(&self) {
        /// `SYSLOG_ACTION_CONSOLE_OFF` of syslog(2).
        const CONSOLE_OFF: libc::c_int = 6;
        if self.use_kmsg {
            // SAFETY: this action takes no buffer.
            unsafe { libc::klogctl(CONSOLE_OFF, std::ptr::null_mut(), 0) };
        }
    }

    fn line(&self, level: Level, line: &str) -> bool {
        if let Some(mut kmsg) = self.kmsg() {
            let mut message = String::with_capacity(line.len().saturating_add(16));
            // `3 << 3` is the facility "daemon", so that the kernel does not take it for its own. Without the line end the
            // kernel would show the record to nobody until another one follows.
            let _ = writeln!(message, "<{}>kelson: {line}", 3 << 3 | number(level));
            match kmsg.write(message.as_bytes()) {
                Ok(_) => return true,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
                // It is not what it was; somebody may read the other.
                Err(_) => {}
            }
        }
        let text = format!("kelson: {line}\n");
        match self.stderr.get_or_init(|| own_descriptor(std::io::stderr().as_fd())) {
            Some(file) => (&*file).write(text.as_bytes()).is_ok_and(|written| written == text.len()),
            None => write_at_once(std::io::stderr().as_fd(), &text),
        }
    }

    /// The kernel's log, opened at the first line after `/dev` is there.
    fn kmsg(&self) -> Option<&File> {
        if !self.use_kmsg {
            return None;
        }
        if self.kmsg.get().is_none() {
            let _ = self.kmsg.set(kernel_log::writer().ok()?);
        }
        self.kmsg.get()
    }
}

/// The kernel's number of a level.
fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// Opens what is behind the descriptor of a pipe or a terminal once more: only so can it be made not to block without
/// that being so for all who share it. A file takes each line at once, also through the same description.
fn own_descriptor(of: BorrowedFd<'_>) -> Option<File> {
    let path = format!("/proc/self/fd/{}", of.as_raw_fd());
    let kind = std::fs::metadata(&path).ok()?.file_type();
    if kind.is_file() {
        return of.try_clone_to_owned().ok().map(File::from);
    }
    if !kind.is_fifo() && !kind.is_char_device() {
        return None;
    }
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    OpenOptions::new().write(true).custom_flags(flags).open(path).ok()
}

/// Writes if that is as good as sure not to block: to a socket without waiting, to anything else if it has room for
/// something.
fn write_at_once(to: BorrowedFd<'_>, text: &str) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::socket::{MsgFlags, send};
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    match send(to.as_raw_fd(), text.as_bytes(), flags) {
        Err(nix::errno::Errno::ENOTSOCK) => {}
        sent => return sent == Ok(text.len()),
    }
    let mut fds = [PollFd::new(to, PollFlags::POLLOUT)];
    if poll(&mut fds, PollTimeout::ZERO) != Ok(1) {
        return false;
    }
    nix::unistd::write(to, text.as_bytes()).is_ok()
}

/// Cuts a message into lines that fit, at line ends and, in long lines, where a character ends.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty()).flat_map(|line| {
        let mut rest = line;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (head, tail) = rest.split_at(start_of(rest, LINE_MAX).len());
            rest = tail;
            Some(head)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::io::Read;

    #[test]
    fn long_lines_are_cut_where_a_character_ends() {
        let text = "ü".repeat(LINE_MAX);
        let lines: Vec<&str> = split(&text).collect();
        assert_eq!(lines.concat(), text);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.len() <= LINE_MAX));
        let odd = format!("a{text}");
        assert_eq!(split(&odd).map(str::len).collect::<Vec<_>>(), [LINE_MAX - 1, LINE_MAX, 2]);
    }

    #[test]
    fn each_line_of_a_message_is_one_line() {
        assert_eq!(split("one\n\ntwo\n").collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(split("").count(), 0);
    }

    /// Fills whatever it is, then makes room again; nothing waits, and the loss is reported.
    fn never_waits(console: &Console, mut reader: impl Read + AsFd) {
        let line = "x".repeat(LINE_MAX);
        let mut written = 0;
        while console.line(Level::INFO, &line) {
            written += 1;
            assert!(written < 100_000, "it never fills up");
        }
        assert!(written > 1, "an empty one takes several lines");
        // A short one may still find room.
        console.write(Level::INFO, &line);
        console.write(Level::INFO, &line);
        let mut text = Vec::new();
        let mut some = vec![0; 1 << 20];
        // How many there were depends on when there was room again, and for how much.
        while !String::from_utf8_lossy(&text).contains("lines of this log were lost") {
            // All that is there: of the room that a few bytes leave, a line fills a part, and so for ever.
            let mut is_more = true;
            while is_more {
                let read = reader.read(&mut some).unwrap();
                text.extend_from_slice(&some[..read]);
                let mut fds = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
                is_more = poll(&mut fds, PollTimeout::ZERO) == Ok(1);
            }
            assert!(text.len() < 1 << 20, "the loss is not said");
            console.write(Level::INFO, "room again");
        }
    }

    fn over_stderr(stderr: &impl AsFd) -> Console {
        let console = Console::new(false);
        console.stderr.set(Some(own_descriptor(stderr.as_fd()).unwrap())).unwrap();
        console
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for() {
        let (reader, writer) = std::io::pipe().unwrap();
        never_waits(&over_stderr(&writer), reader);
        // Other users of the description wait as before.
        let flags = nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        assert_eq!(flags & libc::O_NONBLOCK, 0);
    }

    #[test]
    fn a_terminal_that_nobody_reads_is_not_waited_for() {
        use std::os::fd::FromRawFd as _;
        let (mut master, mut slave) = (0, 0);
        let null = std::ptr::null_mut();
        // SAFETY: both places take a descriptor; no name, settings or size are asked for or given.
        let made = unsafe { libc::openpty(&raw mut master, &raw mut slave, null, null.cast(), null.cast()) };
        assert_eq!(made, 0);
        // SAFETY: the two descriptors were just made, and are nobody else's.
        let (master, slave) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
        never_waits(&over_stderr(&slave), master);
    }

    #[test]
    fn a_kernel_log_that_takes_nothing_is_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("kelson-kmsg-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let fifo = folder.join("kmsg");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&fifo).unwrap();
        let writer = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&fifo).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        let console = Console::new(true);
        console.kmsg.set(writer).unwrap();
        never_waits(&console, reader);
    }

    #[test]
    fn a_record_of_the_kernel_log_is_complete() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let console = Console::new(true);
        console.kmsg.set(File::from(std::os::fd::OwnedFd::from(writer))).unwrap();
        console.write(Level::WARN, "ready");
        let mut text = [0; 64];
        let read = reader.read(&mut text).unwrap();
        assert_eq!(&text[..read], b"<28>kelson: ready\n");
    }

    #[test]
    fn a_kernel_log_that_is_gone_is_replaced_by_stderr() {
        let (reader, gone) = std::io::pipe().unwrap();
        drop(reader);
        let (mut reader, writer) = std::io::pipe().unwrap();
        let console = Console { use_kmsg: true, ..over_stderr(&writer) };
        console.kmsg.set(File::from(std::os::fd::OwnedFd::from(gone))).unwrap();
        console.write(Level::ERROR, "still said");
        let mut text = [0; 64];
        let read = reader.read(&mut text).unwrap();
        assert_eq!(&text[..read], b"kelson: still said\n");
    }

    #[test]
    fn a_socket_that_nobody_reads_is_not_waited_for() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let line = "x".repeat(LINE_MAX);
        let mut written = 0;
        while write_at_once(ours.as_fd(), &line) {
            written += 1;
        }
        assert!(written > 1, "an empty one takes several lines");
    }
}
