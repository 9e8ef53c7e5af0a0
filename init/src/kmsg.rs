//! One way out for every line: the kernel's log, or stderr where that is not ours.
//!
//! A line for `/dev/kmsg` is one write(2) of at most [`LINE_MAX`] bytes with the level before it; the kernel cuts or
//! refuses longer ones. Nothing here ever waits: the descriptor does not block, and stderr is asked first whether it
//! takes a page. What could not be written is counted, and said with the next line that can.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Longest text of one line. The kernel's own limit is 1024 less its header (`LOG_LINE_MAX`).
pub const LINE_MAX: usize = 900;

/// The kernel's levels that we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
    Debug = 7,
}

/// Where the lines go.
#[derive(Debug)]
pub struct Console {
    /// Only ever opened in machine mode: in a container it would be the host's.
    kmsg: OnceLock<File>,
    use_kmsg: bool,
    dropped: AtomicU32,
}

impl Console {
    pub fn new(use_kmsg: bool) -> Console {
        Console { kmsg: OnceLock::new(), use_kmsg, dropped: AtomicU32::new(0) }
    }

    /// Writes one message, over several lines where it is long or has line ends. Never waits.
    pub fn write(&self, level: Level, text: &str) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 && !self.line(Level::Warning, &format!("{dropped} lines of this log were lost")) {
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
        for line in split(text) {
            if !self.line(level, line) {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn line(&self, level: Level, line: &str) -> bool {
        match self.kmsg() {
            Some(mut kmsg) => {
                let mut message = String::with_capacity(line.len().saturating_add(16));
                // `3 << 3` is the facility "daemon", so that the kernel does not take it for its own.
                let _ = write!(message, "<{}>kelson: {line}", 3 << 3 | level as u8);
                kmsg.write(message.as_bytes()).is_ok()
            }
            None => write_at_once(std::io::stderr().as_fd(), &format!("kelson: {line}\n")),
        }
    }

    /// The kernel's log, opened at the first line after `/dev` is there.
    fn kmsg(&self) -> Option<&File> {
        if !self.use_kmsg {
            return None;
        }
        if self.kmsg.get().is_none() {
            let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
            let file = OpenOptions::new().write(true).custom_flags(flags).open("/dev/kmsg").ok()?;
            let _ = self.kmsg.set(file);
        }
        self.kmsg.get()
    }
}

/// Writes if that is sure not to block: a pipe or a terminal that polls writable takes a page.
fn write_at_once(to: BorrowedFd<'_>, text: &str) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
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
            let (head, tail) = rest.split_at(last_boundary(rest, LINE_MAX));
            rest = tail;
            Some(head)
        })
    })
}

/// The longest length up to `most` at which `text` may be cut.
fn last_boundary(text: &str, most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn a_full_pipe_is_not_waited_for() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let line = "x".repeat(LINE_MAX);
        let mut written = 0;
        while write_at_once(writer.as_fd(), &line) {
            written += 1;
        }
        assert!(written > 1, "an empty pipe takes several lines");
        let mut some = vec![0; 8192];
        assert!(reader.read(&mut some).unwrap() > 0);
        assert!(write_at_once(writer.as_fd(), &line), "room again");
    }
}
