//! The options of `init`: its own flags and the kernel's command line together.
//!
//! A machine that does not boot because of a typing error on the kernel command line helps nobody. So nothing here
//! fails: a bad value becomes a complaint that names the word and what would be right, and the default stands. Words
//! that are not ours are ignored, because the kernel hands its own unknown words to `init` as arguments.
//!
//! A container sees the command line of the *host's* kernel in `/proc/cmdline`. It is not meant for the container, so
//! it is read in machine mode only.

use std::path::PathBuf;
use std::time::Duration;

use kelson_spec::vsock::VsockSpec;
use kelson_spec::{Feature, Features, MachineSpec};
use kelson_sys::command_line;

use crate::exit_device::ExitDevice;
use crate::kernel_words::KernelWords;

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

    /// The machine file of a host that has none.
    pub fn machine_defaults(self) -> MachineSpec {
        match self {
            Mode::Machine => MachineSpec::default(),
            Mode::Container => MachineSpec::of_container(),
        }
    }
}

/// What became of the runtime folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimePlace {
    /// It is as it was asked for.
    Wanted,
    /// It cannot be written: it is in shared memory, and goes with this host.
    Shared,
    /// There is none: state is in PID 1's own memory, and there are no sockets.
    Nowhere,
}

/// How many crashes of PID 1 within which time end in a reboot instead of one more life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashLimit {
    pub count: u32,
    pub window: Duration,
}

/// Why a machine starts none of its services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rescue {
    /// `kelson.rescue` on the kernel's command line.
    Asked,
    /// There is no root, for this reason; the boot continues in the initramfs.
    NoRoot(String),
}

/// An option that somebody names: its key, its value, and how it was written.
type Named = (String, String, String);

/// The options of `init`, with their defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    pub mode: Mode,
    /// Those of this build.
    pub features: Features,
    /// Instead of `/etc/kelson`.
    pub config: PathBuf,
    /// Instead of `/run/kelson`.
    pub runtime_dir: PathBuf,
    pub runtime_place: RuntimePlace,
    /// Instead of the machine file's folders of images.
    pub images: Option<PathBuf>,
    /// Instead of `/var/log/kelson`.
    pub log_dir: Option<PathBuf>,
    /// Instead of `/var/lib/kelson`.
    pub state_dir: PathBuf,
    /// How long a failed boot waits before it reboots, where somebody says so; zero: for ever.
    pub panic: Option<Duration>,
    /// Why this machine starts none of its services; `None`: it starts them.
    pub rescue: Option<Rescue>,
    pub crash_limit: CrashLimit,
    /// Where calls are taken over vsock; `None`: nowhere.
    pub api: Option<VsockSpec>,
    /// Where the exit status leaves a machine; `None`: nowhere.
    pub exit: Option<ExitDevice>,
    /// The parameters of the kernel's command line that are not Kelson's own.
    pub kernel: KernelWords,
    /// The command after `--`, in container mode; empty: none.
    pub command: Vec<String>,
    /// Bad values, each as a sentence; they are logged once there is a log.
    pub complaints: Vec<String>,
}

impl Options {
    /// The defaults of a mode.
    pub fn new(mode: Mode) -> Options {
        Options {
            mode,
            features: Features::ALL,
            config: PathBuf::from("/etc/kelson"),
            runtime_dir: PathBuf::from("/run/kelson"),
            runtime_place: RuntimePlace::Wanted,
            images: None,
            log_dir: None,
            state_dir: PathBuf::from("/var/lib/kelson"),
            panic: None,
            rescue: None,
            crash_limit: CrashLimit { count: 3, window: Duration::from_secs(60) },
            api: None,
            exit: None,
            kernel: KernelWords::default(),
            command: Vec::new(),
            complaints: Vec::new(),
        }
    }

    /// How long a failed boot waits before it reboots; zero: for ever.
    pub fn failure_wait(&self) -> Duration {
        self.panic.unwrap_or(Duration::from_secs(10))
    }

    /// Brings together the arguments (without `argv[0]`) and the kernel's command line; an argument wins.
    ///
    /// `usual` is the mode where nobody names one. The command line is asked for in machine mode only.
    pub fn gather(
        args: &[String],
        usual: Mode,
        features: Features,
        command_line: impl FnOnce() -> Option<String>,
    ) -> Options {
        let mut options = Options { features, ..Options::new(usual) };
        let named = options.arguments(args);
        let mode = named
            .iter()
            .rev()
            .filter(|(key, _, _)| key == "mode")
            .find_map(|(_, value, _)| parse_mode(value));
        if mode.unwrap_or(usual) == Mode::Machine
            && let Some(text) = command_line()
        {
            let words = command_line::split(&text);
            for (key, value, word) in words.iter().filter_map(|word| kernel_option(word)) {
                options.set(&key, &value, &word);
            }
            options.kernel = KernelWords::parse(&words, &mut options.complaints);
        }
        for (key, value, word) in named {
            options.set(&key, &value, &word);
        }
        if options.mode == Mode::Machine && !options.command.is_empty() {
            options.command.clear();
            options
                .complaints
                .push("a command after -- is run in container mode only; this one is not".into());
        }
        options
    }

    /// The options that the arguments name.
    fn arguments(&mut self, args: &[String]) -> Vec<Named> {
        let mut named = Vec::new();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                self.command = rest.cloned().collect();
                break;
            }
            let Some(flag) = arg.strip_prefix("--") else {
                named.extend(kernel_option(arg));
                continue;
            };
            let (name, attached) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            let key = match name {
                "mode" | "config" | "runtime-dir" | "images" | "log-dir" | "state-dir" | "api" => name,
                "crash-limit" => "crashLimit",
                _ => continue,
            };
            match attached.or_else(|| rest.next().cloned()) {
                Some(value) => named.push((key.to_owned(), value, format!("--{name}"))),
                None => self.complaints.push(format!("--{name} needs a value after it; the default stands")),
            }
        }
        named
    }

    /// Sets one option; `word` is how it was written, for the complaint.
    fn set(&mut self, key: &str, value: &str, word: &str) {
        let right = match key {
            "mode" => match parse_mode(value) {
                Some(mode) => return self.mode = mode,
                None => "\"machine\" or \"container\"",
            },
            "images" if let Err(missing) = self.features.require(Feature::Containerd) => {
                return self.complaints.push(format!("{word}: {missing}"));
            }
            "config" | "runtime-dir" | "images" | "log-dir" | "state-dir" => match absolute(value) {
                Some(path) => return self.set_path(key, path),
                None => "a folder's absolute path, such as /etc/kelson",
            },
            "panic" => match value.parse::<u32>() {
                Ok(seconds) => return self.panic = Some(Duration::from_secs(u64::from(seconds))),
                Err(_) => "a number of seconds, 0 to wait for ever",
            },
            "crashLimit" => match parse_crash_limit(value) {
                Some(limit) => return self.crash_limit = limit,
                None => "a number and a duration, such as 3/1m",
            },
            "api" => match VsockSpec::parse(value) {
                Ok(spec) => return self.api = Some(spec),
                Err(right) => right,
            },
            "exit" => match ExitDevice::parse(value) {
                Some(device) => return self.exit = Some(device),
                None => "isa-debug-exit, isa-debug-exit:0xPORT or virtio-port:NAME",
            },
            "rescue" if value.is_empty() => return self.rescue = Some(Rescue::Asked),
            "rescue" => "the word alone, kelson.rescue",
            // The helper that reads the sources of the configuration reads the words again.
            machine if machine.starts_with("machine.") => match self.features.require(Feature::Sources) {
                Ok(()) => return,
                Err(missing) => return self.complaints.push(format!("{word}: {missing}")),
            },
            // The writable disk of our own initramfs; KernelWords keeps it.
            "disk" => return,
            _ => {
                return self.complaints.push(format!(
                    "{word} is not known; known are mode, config, runtime-dir, images, log-dir, state-dir, api, exit, panic, rescue, crashLimit and disk"
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

/// Of a word of the kernel's command line that is ours.
fn kernel_option(word: &str) -> Option<Named> {
    let word = word.strip_prefix("kelson.")?;
    let (key, value) = match word {
        "rescue" => (word, ""),
        _ => word.split_once('=')?,
    };
    Some((key.to_owned(), value.to_owned(), format!("kelson.{key}")))
}

fn parse_mode(value: &str) -> Option<Mode> {
    [Mode::Machine, Mode::Container].into_iter().find(|mode| mode.name() == value)
}

fn absolute(value: &str) -> Option<PathBuf> {
    value.starts_with('/').then(|| PathBuf::from(value))
}

fn parse_crash_limit(value: &str) -> Option<CrashLimit> {
    let (count, window) = value.split_once('/')?;
    Some(CrashLimit { count: count.parse().ok()?, window: kelson_spec::parse_duration(window)? })
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
        Options::gather(&args, Mode::Machine, Features::ALL, || Some(line.to_owned()))
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
        assert_eq!(options.panic, Some(Duration::ZERO));
        assert_eq!(options.crash_limit, CrashLimit { count: 5, window: Duration::from_secs(10) });
        assert!(options.complaints.is_empty(), "{:?}", options.complaints);
    }

    #[test]
    fn bad_values_are_named_and_the_default_stands() {
        let options = gather(
            &["--mode", "spaceship", "--images"],
            "kelson.panic=soon kelson.crashLimit=3 kelson.config=etc kelson.foo=1 kelson.api=tcp:1 kelson.exit=7",
        );
        let defaults = Options::new(Mode::Machine);
        assert_eq!(options.panic, defaults.panic);
        assert_eq!(options.crash_limit, defaults.crash_limit);
        assert_eq!(options.config, defaults.config);
        assert_eq!(options.mode, Mode::Machine);
        assert_eq!(options.complaints.len(), 8, "{:?}", options.complaints);
        assert!(options.complaints.iter().any(|text| text.contains("kelson.panic: found \"soon\"")));
        assert!(options.complaints.iter().any(|text| text.contains("--images needs a value")));
        for start in [
            "kelson.api: found \"tcp:1\", needed is vsock:PORT",
            "kelson.exit: found \"7\", needed is isa-debug-exit",
        ] {
            assert!(
                options.complaints.iter().any(|text| text.starts_with(start)),
                "{:?}",
                options.complaints
            );
        }
    }

    #[test]
    fn a_flag_of_a_missing_feature_is_rejected_by_name() {
        let args = ["--images=/a".to_owned(), "--log-dir=/b".to_owned()];
        let options = Options::gather(&args, Mode::Container, Features::NONE, || None);
        assert_eq!((options.images, options.log_dir), (None, Some("/b".into())));
        let missing = kelson_spec::MissingFeature(Feature::Containerd);
        assert_eq!(options.complaints, [format!("--images: {missing}")]);
    }

    #[test]
    fn a_container_does_not_listen_to_the_hosts_kernel() {
        let args = vec!["--mode".to_owned(), "container".to_owned()];
        let options =
            Options::gather(&args, Mode::Machine, Features::ALL, || Some("kelson.config=/host".to_owned()));
        assert_eq!(options, Options::new(Mode::Container));
    }

    #[test]
    fn what_follows_two_dashes_is_a_command_in_a_container() {
        let args = ["--config", "/a", "--", "nginx", "-g", "--mode", "--", "machine"].map(str::to_owned);
        let options = Options::gather(&args, Mode::Container, Features::ALL, || None);
        assert_eq!(options.command, ["nginx", "-g", "--mode", "--", "machine"]);
        assert_eq!((options.mode, options.config), (Mode::Container, PathBuf::from("/a")));
        let options = Options::gather(&args, Mode::Machine, Features::ALL, || None);
        assert!(options.command.is_empty());
        assert!(options.complaints.iter().any(|text| text.contains("in container mode only")));
    }

    #[test]
    fn the_kernel_may_name_container_mode() {
        assert_eq!(gather(&[], "kelson.mode=container").mode, Mode::Container);
    }
}
