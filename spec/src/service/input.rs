//! The standard input of a process: nothing, a file, a text, or a terminal that controls it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a process reads on its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Input {
    /// `/dev/null`.
    #[default]
    Nothing,
    /// A file, FIFO or device, opened for each run.
    File(PathBuf),
    /// This text, and then the end.
    Text(String),
    Terminal(TerminalSpec),
}

impl Input {
    /// The longest text, in bytes.
    pub const LONGEST: usize = 64 << 10;

    pub fn terminal(&self) -> Option<&TerminalSpec> {
        if let Input::Terminal(terminal) = self { Some(terminal) } else { None }
    }

    /// Whether the output of the process goes there too.
    pub fn takes_output(&self) -> bool {
        self.terminal().is_some_and(|terminal| terminal.output == TerminalOutput::Terminal)
    }
}

/// The terminal of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TerminalSpec {
    /// A device below `/dev`.
    pub path: PathBuf,
    pub output: TerminalOutput,
    /// It is taken from another session that it controls.
    pub force: bool,
    /// All who have it open lose it before each run.
    pub hang_up: bool,
    /// It gets its usual modes back before each run.
    pub reset: bool,
    /// Its screen and what was scrolled away are cleared before each run.
    pub clear: bool,
    /// `None`: as it is.
    pub rows: Option<u16>,
    /// `None`: as it is.
    pub columns: Option<u16>,
}

/// Where the output of a process with a terminal goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TerminalOutput {
    #[default]
    Terminal,
    Log,
}

impl TerminalSpec {
    /// Whether a run changes more of it than what it shows.
    pub fn is_changed(&self) -> bool {
        self.hang_up || self.reset || self.clear
    }

    /// The number of a virtual terminal: 1 for `/dev/tty1`.
    pub fn virtual_number(path: &Path) -> Option<u8> {
        path.to_str()?.strip_prefix("/dev/tty")?.parse().ok()
    }

    /// Its kind, for `TERM`: the kernel draws on `/dev/tty1` itself, and a program behind a line is a vt220 at least.
    pub fn kind(path: &Path) -> &'static str {
        if Self::virtual_number(path).is_some() { "linux" } else { "vt220" }
    }

    /// Whether it is the path of a device.
    pub fn is_path(path: &Path) -> bool {
        path.strip_prefix("/dev").is_ok_and(|rest| {
            let mut parts = rest.components();
            parts.clone().next().is_some()
                && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
        })
    }

    /// As one word of a command line, for the helper that opens it.
    pub fn to_word(&self) -> String {
        let TerminalSpec { path, output: _, force: _, hang_up, reset, clear, rows, columns } = self;
        let flags = [(*hang_up, 'h'), (*reset, 'r'), (*clear, 'c')];
        let flags: String =
            flags.into_iter().filter_map(|(is_set, letter)| is_set.then_some(letter)).collect();
        let (rows, columns) = (rows.unwrap_or_default(), columns.unwrap_or_default());
        format!("{flags}:{rows}:{columns}:{}", path.display())
    }

    /// `None`: it is no word of [`TerminalSpec::to_word`].
    pub fn from_word(word: &str) -> Option<TerminalSpec> {
        let mut parts = word.splitn(4, ':');
        let (flags, rows, columns, path) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let number = |text: &str| text.parse().ok().map(|number: u16| (number > 0).then_some(number));
        Some(TerminalSpec {
            path: path.into(),
            hang_up: flags.contains('h'),
            reset: flags.contains('r'),
            clear: flags.contains('c'),
            rows: number(rows)?,
            columns: number(columns)?,
            ..TerminalSpec::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_survives_its_word() {
        let plain = TerminalSpec { path: "/dev/pts/3".into(), ..TerminalSpec::default() };
        let all = TerminalSpec {
            path: "/dev/a:b".into(),
            hang_up: true,
            reset: true,
            clear: true,
            rows: Some(25),
            columns: Some(80),
            ..TerminalSpec::default()
        };
        for terminal in [plain, all] {
            assert_eq!(TerminalSpec::from_word(&terminal.to_word()), Some(terminal));
        }
        for wrong in ["", "h:1:2", "h:x:2:/dev/tty1", "h:1:70000:/dev/tty1"] {
            assert_eq!(TerminalSpec::from_word(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_kind_is_that_of_a_screen_or_of_a_line() {
        let kind = |name: &str| TerminalSpec::kind(&Path::new("/dev").join(name));
        let names = ["tty1", "ttyS0", "ttyAMA0", "hvc0", "console", "pts/0", "tty"];
        assert_eq!(names.map(kind), ["linux", "vt220", "vt220", "vt220", "vt220", "vt220", "vt220"]);
    }

    #[test]
    fn a_device_is_below_dev() {
        for right in ["/dev/tty1", "/dev/pts/0", "/dev/serial/by-id/a b"] {
            assert!(TerminalSpec::is_path(Path::new(right)), "{right}");
        }
        for wrong in ["/dev", "/dev/", "/dev/../etc/passwd", "/devices/tty1", "/etc/x", "dev/tty1"] {
            assert!(!TerminalSpec::is_path(Path::new(wrong)), "{wrong}");
        }
    }
}
