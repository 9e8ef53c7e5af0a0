//! What `init` was told: its own flags and the kernel's command line, brought together.
//!
//! A machine that does not boot because of a typing error on the kernel command line helps nobody. So nothing here
//! fails: a bad value becomes a complaint that names the word and what would be right, and the default stands. Words
//! that are not ours are ignored, because the kernel hands its own unknown words to `init` as arguments.
//!
//! A container sees the command line of the *host's* kernel in `/proc/cmdline`. It is not meant for the container, so
//! it is read in machine mode only.

use std::path::PathBuf;
use std::time::Duration;

use crate::kernel_words::{self, KernelWords};

/// On what Kelson runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A real or virtual machine: mounts, devices and reboot(2) are ours.
    Machine,
    /// PID 1 of a PID namespace: no mounts, no reboot(2) of the host.
    Container,
}

impl Mode {
    /// The word of the command line and of the API.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Machine => "machine",
            Mode::Container => "container",
        }
    }
}

/// How many crashes of PID 1 within which time end in a reboot instead of one more life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashLimit {
    pub count: u32,
    pub window: Duration,
}

/// What `init` was told, with defaults where it was told nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    pub mode: Mode,
    /// Instead of `/etc/kelson`.
    pub config: PathBuf,
    /// Instead of `/run/kelson`.
    pub runtime_dir: PathBuf,
    /// Instead of the machine file's folders of images.
    pub images: Option<PathBuf>,
    /// Instead of `/var/log/kelson`.
    pub log_dir: Option<PathBuf>,
    /// Instead of `/var/lib/kelson`.
    pub state_dir: PathBuf,
    /// How long a failed boot waits before it reboots; zero: for ever.
    pub panic: Duration,
    pub crash_limit: CrashLimit,
    /// What the kernel's command line says that is not Kelson's own.
    pub kernel: KernelWords,
    /// Bad values, each as a sentence; they are logged once there is a log.
    pub complaints: Vec<String>,
}

impl Options {
    /// The defaults of a mode.
    pub fn new(mode: Mode) -> Options {
        Options {
            mode,
            config: PathBuf::from("/etc/kelson"),
            runtime_dir: PathBuf::from("/run/kelson"),
            images: None,
            log_dir: None,
            state_dir: PathBuf::from("/var/lib/kelson"),
            panic: Duration::from_secs(10),
            crash_limit: CrashLimit { count: 3, window: Duration::from_secs(60) },
            kernel: KernelWords::default(),
            complaints: Vec::new(),
        }
    }

    /// Brings together the arguments (without `argv[0]`) and the kernel's command line; an argument wins.
    ///
    /// `usual` is the mode where nobody names one. The command line is asked for in machine mode only.
    pub fn gather(args: &[String], usual: Mode, command_line: impl FnOnce() -> Option<String>) -> Options {
        let mut options = Options::new(usual);
        let mode_named = named_mode(args);
        let read_command_line = mode_named.unwrap_or(usual) == Mode::Machine;
        if let Some(text) = read_command_line.then(command_line).flatten() {
            let words = kernel_words::split(&text);
            for word in &words {
                options.kernel_word(word);
            }
            options.kernel = KernelWords::parse(&words, &mut options.complaints);
        }
        options.arguments(args);
        options
    }

    fn arguments(&mut self, args: &[String]) {
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let Some(flag) = arg.strip_prefix("--") else {
                self.kernel_word(arg);
                continue;
            };
            let (name, attached) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            let key = match name {
                "mode" | "config" | "runtime-dir" | "images" | "log-dir" | "state-dir" => name,
                "crash-limit" => "crashLimit",
                _ => continue,
            };
            match attached.or_else(|| rest.next().cloned()) {
                Some(value) => self.set(key, &value, &format!("--{name}")),
                None => self.complaints.push(format!("--{name} needs a value after it; the default stands")),
            }
        }
    }

    fn kernel_word(&mut self, word: &str) {
        let Some((key, value)) = word.strip_prefix("kelson.").and_then(|own| own.split_once('=')) else {
            return;
        };
        self.set(key, value, &format!("kelson.{key}"));
    }

    /// Sets one option; `word` is how it was written, for the complaint.
    fn set(&mut self, key: &str, value: &str, word: &str) {
        let right = match key {
            "mode" => match parse_mode(value) {
                Some(mode) => return self.mode = mode,
                None => "\"machine\" or \"container\"",
            },
            "config" | "runtime-dir" | "images" | "log-dir" | "state-dir" => match absolute(value) {
                Some(path) => return self.set_path(key, path),
                None => "a folder's absolute path, such as /etc/kelson",
            },
            "panic" => match value.parse::<u32>() {
                Ok(seconds) => return self.panic = Duration::from_secs(u64::from(seconds)),
                Err(_) => "a number of seconds, 0 to wait for ever",
            },
            "crashLimit" => match parse_crash_limit(value) {
                Some(limit) => return self.crash_limit = limit,
                None => "a number and a duration, such as 3/1m",
            },
            // The writable disk of our own initramfs; KernelWords keeps it.
            "disk" => return,
            _ => {
                return self.complaints.push(format!(
                    "{word} is not known; known are mode, config, runtime-dir, images, log-dir, state-dir, panic, crashLimit and disk"
                ));
            }
        };
        self.complaints.push(format!("{word}: found \"{value}\", needed is {right}; the default stands"));
    }

    fn set_path(&mut self, key: &str, path: PathBuf) {
        match key {
            "config" => self.config = path,
            "runtime-dir" => self.runtime_dir = path,
            "images" => self.images = Some(path),
            "state-dir" => self.state_dir = path,
            _ => self.log_dir = Some(path),
        }
    }
}

/// The mode that the arguments name, if they name a right one.
fn named_mode(args: &[String]) -> Option<Mode> {
    let mut rest = args.iter();
    let mut found = None;
    while let Some(arg) = rest.next() {
        if arg == "--mode" {
            found = rest.next().and_then(|value| parse_mode(value)).or(found);
        } else if let Some(value) = arg.strip_prefix("--mode=").or_else(|| arg.strip_prefix("kelson.mode=")) {
            found = parse_mode(value).or(found);
        }
    }
    found
}

fn parse_mode(value: &str) -> Option<Mode> {
    [Mode::Machine, Mode::Container].into_iter().find(|mode| mode.name() == value)
}

fn absolute(value: &str) -> Option<PathBuf> {
    value.starts_with('/').then(|| PathBuf::from(value))
}

fn parse_crash_limit(value: &str) -> Option<CrashLimit> {
    let (count, window) = value.split_once('/')?;
    Some(CrashLimit { count: count.parse().ok()?, window: parse_duration(window)? })
}

/// `500ms`, `10s`, `1m`, `2h`.
fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

/// The number of the initial PID namespace: `PROC_PID_INIT_INO` of the kernel's `proc_ns.h`.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The mode when nobody names one: container for PID 1 of a PID namespace that is not the machine's own.
///
/// `/proc` tells the namespace's number. Without `/proc` (the kernel has just started us) PID 2 does: only in the
/// initial namespace is it kthreadd, the one process with the process group 0.
pub fn usual_mode() -> Mode {
    use std::os::unix::fs::MetadataExt;
    let initial = match std::fs::metadata("/proc/self/ns/pid") {
        Ok(namespace) => namespace.ino() == INITIAL_PID_NAMESPACE,
        Err(_) => {
            nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(2))).is_ok_and(|group| group.as_raw() == 0)
        }
    };
    if initial { Mode::Machine } else { Mode::Container }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(args: &[&str], line: &str) -> Options {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        Options::gather(&args, Mode::Machine, || Some(line.to_owned()))
    }

    #[test]
    fn defaults_stand_when_nothing_is_said() {
        assert_eq!(gather(&[], "console=ttyS0 quiet splash"), Options::new(Mode::Machine));
    }

    #[test]
    fn flags_win_over_the_kernel_command_line() {
        let options = gather(
            &["--config", "/a", "--runtime-dir=/b", "--state-dir", "/s", "--crash-limit", "5/10s", "quiet"],
            "kelson.config=/x kelson.runtime-dir=/y kelson.log-dir=/z kelson.panic=0 kelson.crashLimit=7/1h",
        );
        assert_eq!(options.config, PathBuf::from("/a"));
        assert_eq!(options.runtime_dir, PathBuf::from("/b"));
        assert_eq!(options.log_dir, Some(PathBuf::from("/z")));
        assert_eq!(options.state_dir, PathBuf::from("/s"));
        assert_eq!(options.panic, Duration::ZERO);
        assert_eq!(options.crash_limit, CrashLimit { count: 5, window: Duration::from_secs(10) });
        assert!(options.complaints.is_empty(), "{:?}", options.complaints);
    }

    #[test]
    fn bad_values_are_named_and_the_default_stands() {
        let options = gather(
            &["--mode", "spaceship", "--images"],
            "kelson.panic=soon kelson.crashLimit=3 kelson.config=etc kelson.foo=1",
        );
        let defaults = Options::new(Mode::Machine);
        assert_eq!(options.panic, defaults.panic);
        assert_eq!(options.crash_limit, defaults.crash_limit);
        assert_eq!(options.config, defaults.config);
        assert_eq!(options.mode, Mode::Machine);
        assert_eq!(options.complaints.len(), 6, "{:?}", options.complaints);
        assert!(options.complaints.iter().any(|text| text.contains("kelson.panic: found \"soon\"")));
        assert!(options.complaints.iter().any(|text| text.contains("--images needs a value")));
    }

    #[test]
    fn a_container_does_not_listen_to_the_hosts_kernel() {
        let args = vec!["--mode".to_owned(), "container".to_owned()];
        let options = Options::gather(&args, Mode::Machine, || Some("kelson.config=/host".to_owned()));
        assert_eq!(options, Options::new(Mode::Container));
    }

    #[test]
    fn the_kernel_may_name_container_mode() {
        assert_eq!(gather(&[], "kelson.mode=container").mode, Mode::Container);
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("1m"), Some(Duration::from_secs(60)));
        assert_eq!(parse_duration("2h"), Some(Duration::from_secs(7200)));
        for bad in ["", "1", "s", "-1s", "99999999999999999999h", "18446744073709551615h"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
