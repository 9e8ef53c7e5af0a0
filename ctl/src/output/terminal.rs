//! The targets of the standard streams: a terminal of some width and some colours, or something else.

use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::{Instant, SystemTime};

use prost_types::Timestamp;

use super::style::Palette;
use super::text::{escape, fit, width};
use super::time;

/// With fewer columns times are shown in their short form.
const WIDE: usize = 100;
/// Of a terminal that does not tell.
const LINES: usize = 24;

/// A stream as far as its looks are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    pub is_terminal: bool,
    /// Columns; `None` where there is no limit.
    pub width: Option<usize>,
    /// Lines; `None` where there is no limit.
    pub height: Option<usize>,
    pub palette: Palette,
    /// Lines may be drawn with more than ASCII.
    pub unicode: bool,
    /// A table that is all there is begins with a line of headings.
    pub headers: bool,
}

impl Terminal {
    /// The standard output.
    pub fn stdout() -> Terminal {
        let stream = std::io::stdout();
        Terminal::new(stream.is_terminal(), size(stream.as_raw_fd()))
    }

    /// The standard error.
    pub fn stderr() -> Terminal {
        let stream = std::io::stderr();
        Terminal::new(stream.is_terminal(), size(stream.as_raw_fd()))
    }

    fn new(is_terminal: bool, size: Option<(usize, usize)>) -> Terminal {
        let (columns, lines) = size.unwrap_or((80, LINES));
        let variable = |name: &str| std::env::var(name).ok();
        Terminal {
            is_terminal,
            width: is_terminal.then_some(columns),
            height: is_terminal.then_some(lines),
            palette: Palette::choose(is_terminal, variable),
            unicode: speaks_unicode(variable),
            headers: true,
        }
    }

    /// A time as there is room for it: in full, or short. Those of one list are equally wide.
    pub fn time(&self, time: &Timestamp, now: SystemTime) -> String {
        match self.width {
            Some(columns) if columns < WIDE => time::short(time, now),
            _ => time::rfc3339(time),
        }
    }

    /// A stream that is no terminal.
    #[cfg(test)]
    pub fn plain() -> Terminal {
        Terminal {
            is_terminal: false,
            width: None,
            height: None,
            palette: Palette::None,
            unicode: true,
            headers: true,
        }
    }
}

/// The columns and lines of the terminal at this descriptor; `None` where it does not tell.
fn size(descriptor: i32) -> Option<(usize, usize)> {
    let size = winsize(descriptor);
    let lines = if size.ws_row > 0 { usize::from(size.ws_row) } else { LINES };
    (size.ws_col > 0).then_some((usize::from(size.ws_col), lines))
}

/// The size of the terminal at this descriptor; all zero where it does not tell.
pub fn winsize(descriptor: i32) -> libc::winsize {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize through the pointer, which is valid for that; on a descriptor that is no
    // terminal it fails and writes nothing.
    unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) };
    size
}

/// The locale speaks UTF-8, or nobody set one: a console does since Linux 2.6.
fn speaks_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| variable(name).filter(|v| !v.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Ends this process as one ends whose output nobody reads any more.
pub fn end_by_sigpipe() -> ! {
    // SAFETY: both calls take plain numbers; no handler of this process is replaced but the standard library's ignore.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::raise(libc::SIGPIPE);
    }
    // Reached only where SIGPIPE is blocked.
    std::process::exit(0)
}

/// One line on a terminal that is written over and over while something is awaited.
#[derive(Debug)]
pub struct Progress {
    terminal: Terminal,
    started: Instant,
    text: String,
    shown: bool,
}

impl Progress {
    /// A line on the standard error; nothing is ever shown where that is no terminal.
    pub fn new() -> Progress {
        Progress::on(Terminal::stderr())
    }

    /// One that is never shown.
    pub fn hidden() -> Progress {
        Progress::on(Terminal { is_terminal: false, ..Terminal::stderr() })
    }

    fn on(terminal: Terminal) -> Progress {
        Progress { terminal, started: Instant::now(), text: String::new(), shown: false }
    }

    /// The time is counted from then on.
    pub fn since(mut self, started: Instant) -> Progress {
        self.started = started;
        self
    }

    /// True where there is somebody to show it to.
    pub fn is_seen(&self) -> bool {
        self.terminal.is_terminal
    }

    /// Shows this text instead of the last one.
    pub fn show(&mut self, text: &str) {
        self.text = escape(text).into_owned();
        self.refresh();
    }

    /// Shows the same text with the time as it is now.
    pub fn refresh(&mut self) {
        if self.is_seen() && !self.text.is_empty() {
            let dot = if self.terminal.unicode { "·" } else { "-" };
            let passed = format!(" {dot} {}", time::passed(self.started.elapsed()));
            // The last column stays empty: some terminals wrap as soon as it is filled. The time is always seen.
            let room = self.terminal.width.unwrap_or(80).saturating_sub(1 + width(&passed));
            self.write(&format!("\r\x1b[K{}{passed}", fit(&self.text, room)));
            self.shown = true;
        }
    }

    /// Clears the line, for a text that is to stand there; the next text of the progress is shown below that.
    pub fn erase(&self) {
        if self.is_seen() {
            self.write("\r\x1b[K");
        }
    }

    fn write(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        // A progress line that cannot be shown is no loss.
        drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            self.write("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_about_lines() {
        let with = |set: &'static [(&str, &str)]| {
            speaks_unicode(|name| set.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned()))
        };
        assert!(with(&[]));
        assert!(with(&[("LANG", "de_DE.UTF-8")]));
        assert!(with(&[("LANG", "C.utf8")]));
        assert!(!with(&[("LANG", "C")]));
        assert!(!with(&[("LC_ALL", "POSIX"), ("LANG", "en_US.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")]));
    }

    #[test]
    fn a_file_has_no_width() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(size(file.as_raw_fd()), None);
    }
}
