//! The answers of a host to `kelsonctl`, and the output that it makes of them.

use std::cell::OnceCell;
use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use clap::Parser as _;
use kelsonctl::cli::{self, Cli};
use kelsonctl::{Call, Choice, Format, Palette, Terminal};

use crate::grpc::{self, Answer};
use crate::input::Input;
use crate::place::{self, Place};
use crate::time;

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

/// All that show what they are answered and end by themselves.
const COMMANDS: [&str; 51] = [
    "services",
    "status web",
    "start web",
    "stop --cascade web",
    "restart web",
    "wait web --for up --timeout 1s",
    "why web",
    "graph",
    "graph --format dot",
    "graph --format mermaid",
    "graph --format svg",
    "graph --format text",
    "events",
    "events --since 1 web",
    "logs web",
    "logs --times --tail 2 web db",
    "metrics",
    "metrics -o table",
    "metrics -o json web",
    "dmesg",
    "boot",
    "boot blame",
    "boot critical-chain",
    "boot plot",
    "images",
    "images prune",
    "health",
    "health shop",
    "health --wait --timeout 1s",
    "version",
    "reexec",
    "processes",
    "processes --sort cpu web",
    "netstat",
    "netstat --connections web",
    "mounts --all --wide",
    "memory",
    "disks",
    "cgroups",
    "time",
    "ls -l /",
    "read /etc/hosts",
    "events --timeline",
    "events --timeline --format svg",
    "registry",
    "fleet status",
    "fleet hosts -l role=edge,site",
    "fleet why edge-* -l role=edge",
    "fleet health",
    "fleet versions",
    "fleet services web --tag primary",
];

/// The first byte names the command, the second how it is to look, the third the status; then messages, each with its length
/// before it.
pub fn responses(data: &[u8]) {
    let mut input = Input(data);
    let command = COMMANDS[usize::from(input.byte()) % COMMANDS.len()];
    let looks = input.byte();
    // Most answers are no failures.
    let status = input.byte().saturating_sub(u8::MAX - 16);
    let mut messages = Vec::new();
    while !input.is_empty() && messages.len() < 8 {
        messages.push(input.piece().to_vec());
    }
    let cli = Cli::try_parse_from(std::iter::once("kelsonctl").chain(command.split(' '))).expect("a command");
    let format = [Format::Table, Format::Json, Format::Yaml][usize::from(looks) % 3];
    let is_terminal = looks & 0x10 != 0;
    let terminal = Terminal {
        is_terminal,
        width: is_terminal.then_some([20, 80, 1, 200][usize::from(looks >> 5) % 4]),
        height: is_terminal.then_some(24),
        palette: if is_terminal { Palette::Full } else { Palette::None },
        unicode: looks & 0x80 == 0,
        headers: looks & 0x4 == 0,
    };
    place::with(&FOLDER, |place| {
        let (init, logs) = (place.path().join("init.sock"), place.path().join("log.sock"));
        let _ = (std::fs::remove_file(&init), std::fs::remove_file(&logs));
        let call = Call {
            format: cli.global.output.unwrap_or(format),
            chosen: cli.global.output.or((looks & 0x8 != 0).then_some(format)),
            terminal,
            choice: Choice { endpoint: Some(format!("unix://{}", init.display())), ..Choice::default() },
            node: None,
            grammar: cli::command,
            screen: None,
        };
        let _silence = Silence::new();
        time::within(Duration::from_secs(90), async {
            let answer = Arc::new(Answer { messages, status });
            grpc::host(&init, &answer);
            grpc::host(&logs, &answer);
            let failed = cli.command.expect("a command").run(&call).await.err();
            failed.map(|failure| failure.to_string())
        });
    });
}

/// Nobody reads what is printed; what a panic says is printed all the same.
struct Silence;

static OUTPUTS: OnceLock<[OwnedFd; 2]> = OnceLock::new();
static HOOK: Once = Once::new();

fn duplicate(from: RawFd) -> OwnedFd {
    // SAFETY: a number; what comes back is new and nobody's.
    unsafe { OwnedFd::from_raw_fd(libc::fcntl(from, libc::F_DUPFD_CLOEXEC, 10)) }
}

fn put(from: RawFd, over: RawFd) {
    // SAFETY: numbers of descriptors that are open; the standard outputs belong to no value.
    unsafe { libc::dup2(from, over) };
}

fn speak() {
    if let Some(outputs) = OUTPUTS.get() {
        for (output, number) in outputs.iter().zip([1, 2]) {
            put(output.as_raw_fd(), number);
        }
    }
}

impl Silence {
    fn new() -> Silence {
        static NULL: OnceLock<File> = OnceLock::new();
        OUTPUTS.get_or_init(|| [duplicate(1), duplicate(2)]);
        HOOK.call_once(|| {
            let earlier = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |what| {
                speak();
                earlier(what);
            }));
        });
        let null = NULL.get_or_init(|| File::options().write(true).open("/dev/null").expect("/dev/null"));
        for number in [1, 2] {
            put(null.as_raw_fd(), number);
        }
        Silence
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        speak();
    }
}
