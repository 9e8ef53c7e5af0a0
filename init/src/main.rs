//! One file, several personalities: `argv[0]` alone says which one this process is.
//!
//! `init` as PID 1 is the init of a host; every other process of Kelson is a small program of its own that does what
//! PID 1 must not do itself. This crate boots, mounts, handles signals and ends the run; it wires the crates below it
//! together ([`supervisor`]) and decides nothing that they can decide.

// Rust's own start aborts when a standard descriptor is closed and there is no /dev/null to put there, and PID 1 may
// well find that: `entry::settle` is our start.
#![cfg_attr(not(test), no_main)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]
// The test build has no `main` that calls everything.
#![cfg_attr(test, allow(dead_code))]

mod ask;
mod boot;
mod crash;
mod entry;
mod error;
mod exit_device;
mod failure;
mod heap;
mod initramfs;
mod kernel_words;
mod kmsg;
mod log;
mod memory;
mod options;
mod protection;
mod reexec;
mod rescue;
mod shutdown;
mod signals;
mod supervisor;
mod swap;
mod task;
mod watchdog;

use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use boot::{Sequence, history};
use crash::watcher::Watcher;
use crash::{BootReason, Ending, last_resort, report};
use error::{At as _, Error};
use kelson_services::state_store::Kind;
use kelson_spec::features::OWN;
use options::{Mode, Options, RuntimePlace};
use shutdown::{Failure, Finish};
use supervisor::{Intent, Intents};
use tokio::runtime::Runtime;

const USAGE: &str = "\
Kelson, an init for small hosts. It is started by the kernel, or as PID 1 of a PID namespace:
  unshare --pid --fork --mount --mount-proc init --mode container --config DIR --runtime-dir DIR
  init --mode container -- COMMAND [ARGUMENT…]
Options:
  --mode machine|container  on what it runs (default: container in a PID namespace, else machine)
  --config DIR              machine.yaml and services/*.yaml (default /etc/kelson)
  --runtime-dir DIR         sockets and state (default /run/kelson)
  --images DIR              service images (default: as machine.yaml says)
  --log-dir DIR             logs of services (default /var/log/kelson)
  --state-dir DIR           what must outlive a reboot (default /var/lib/kelson)
  --api vsock:PORT          calls from the hypervisor's host over vsock, too (default: none)
  --crash-limit N/DURATION  N crashes of PID 1 in that time end in a reboot (default 3/1m)
  -- COMMAND                in a container: run this command, and end with its exit status
On the kernel's command line the same words stand as kelson.mode=… and so on, with kelson.panic=SECONDS,
kelson.rescue, which starts no service, and kelson.exit=DEVICE, which takes the exit status of a machine: isa-debug-exit[:0xPORT] or virtio-port:NAME.
kelsonctl talks to a running init.
";

/// The entry point that the C library calls.
// SAFETY: nothing else of this program has that name.
#[cfg(not(test))]
#[unsafe(no_mangle)]
pub extern "C" fn main(_argc: libc::c_int, _argv: *const *const libc::c_char) -> libc::c_int {
    start()
}

/// The part that a process plays, with the words behind its name. Returns the exit status.
type Main = fn(&[OsString]) -> i32;

/// The parts beside `init`, by the last part of the name in `argv[0]`.
const PERSONALITIES: &[(&CStr, Main)] = &[
    (c"kelson-logd", |words| kelson_logd::main(words.iter().cloned())),
    #[cfg(feature = "probes")]
    (c"kelson-probe", |words| kelson_probe::main(words.iter().cloned())),
    #[cfg(feature = "apid")]
    (c"kelson-apid", |words| kelson_apid::main(words.iter().cloned())),
    (c"kelson-console", kelson_console::main),
    (c"kelson-devlog", |_| kelson_devlog::main()),
    (c"kelson-load", |words| kelson_load::process::main(words, OWN)),
    #[cfg(feature = "containerd")]
    (c"kelson-container", kelson_container::main),
    #[cfg(feature = "containerd")]
    (c"kelson-unpack", |words| kelson_unpack::main(words.iter().cloned())),
    #[cfg(feature = "pull")]
    (c"kelson-pull", |_| kelson_pull::main()),
    #[cfg(feature = "devices")]
    (c"kelson-devices", kelson_devices::main),
    #[cfg(feature = "fleet")]
    (c"kelson-fleet", kelson_fleet::main),
    #[cfg(feature = "inspect")]
    (c"kelson-inspect", |_| kelson_inspect::main()),
    #[cfg(feature = "net")]
    (c"kelson-net", kelson_net::main),
    (c"kelson-task", |words| kelson_task::main(words).into()),
    #[cfg(feature = "units")]
    (c"kelson-timers", kelson_timers::main),
    #[cfg(feature = "timesync")]
    (c"kelson-timesync", kelson_timesync::main),
    #[cfg(feature = "volumes")]
    (c"kelson-volumes", kelson_volumes::main),
    (c"reboot", |words| ask::main(ask::REBOOT, words).into()),
    (c"poweroff", |words| ask::main(ask::POWER_OFF, words).into()),
    (c"halt", |words| ask::main(ask::HALT, words).into()),
];

/// The helper that the name stands for. An unknown name means `init`.
fn personality(program: &str) -> Option<(&'static CStr, Main)> {
    let name = Path::new(program).file_name()?.as_bytes();
    PERSONALITIES.iter().copied().find(|(known, _)| known.to_bytes() == name)
}

/// The start of every personality; returns the exit status.
fn start() -> i32 {
    // The C library has passed the arguments to Rust's environment before this.
    let words: Vec<OsString> = std::env::args_os().collect();
    let program = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let rest = words.get(1..).unwrap_or_default();
    let other = personality(&program);
    let is_first = other.is_none() && std::process::id() == 1;
    if is_first {
        signals::block();
    }
    heap::keep_one_arena();
    entry::settle(other.map_or(c"init", |(name, _)| name));
    match other {
        Some((_, main)) => main(rest),
        None if is_first => init(&program, rest),
        None => usage(rest),
    }
}

/// The version, and a line for the features of this build.
fn version() -> String {
    let features: Vec<&str> = OWN.names().collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    format!("kelson {}\nfeatures: {features}\n", env!("CARGO_PKG_VERSION"))
}

/// `init`, but not as PID 1.
fn usage(rest: &[OsString]) -> i32 {
    use std::io::Write;
    let word = rest.first().and_then(|word| word.to_str());
    let (text, status) = match word {
        Some("--version" | "-V") => (version(), 0),
        Some("--help" | "-h") => (USAGE.to_owned(), 0),
        Some(reexec::CAN_GO_ON) => reexec::can_go_on(rest),
        _ => (format!("This is not PID 1, so there is nothing to do.\n{USAGE}"), 2),
    };
    // A no is an answer as well.
    let _ = if status == 0 || word == Some(reexec::CAN_GO_ON) {
        std::io::stdout().write_all(text.as_bytes())
    } else {
        std::io::stderr().write_all(text.as_bytes())
    };
    status
}

/// PID 1, from its first line to the end of the run.
fn init(program: &str, rest: &[OsString]) -> ! {
    let now = history::since_kernel();
    let arguments: Vec<String> = rest.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let usual = options::usual_mode();
    // The kernel's command line and our own program stand in /proc. A container has it, or does without.
    let proc = (usual == Mode::Machine).then(|| boot::mounts::FIRST.first().map(|proc| proc.mount()));
    let mut options = Options::gather(&arguments, usual, OWN, || {
        std::fs::read_to_string(kelson_sys::command_line::PATH).ok()
    });
    log::install(options.mode);
    if let Some(Some(Err(error))) = proc {
        tracing::error!("{error}");
    }
    let leaves = options.mode == Mode::Machine && initramfs::is_first_stage(program, &options.kernel);
    let started = reexec::started().unwrap_or(now);
    if !leaves && memory::in_memory() {
        reexec::remember_origin(started);
    }
    let boot_reason = crash::install(options.mode, options.crash_limit);
    if leaves {
        let Err(reason) = initramfs::run(&options.kernel, kelson_task::perform);
        let reason = reason.to_string();
        if !rescue::is_possible(&options) {
            failure::at_the_start(&options, &reason);
        }
        tracing::error!(
            "{reason}; the boot continues in the initramfs, so that an operator can repair the machine"
        );
        rescue::remember(&reason);
    }
    if !memory::in_memory() {
        move_into_memory(started);
    }
    options.rescue = rescue::found(options.rescue).filter(|_| options.mode == Mode::Machine);
    for complaint in &options.complaints {
        tracing::warn!("{complaint}");
    }
    if !options.command.is_empty() && rest.iter().any(|word| word.to_str().is_none()) {
        failure::at_the_start(&options, "the command after -- has a word that is not UTF-8");
    }
    let again = options.clone();
    let reason = run(options, started, now, boot_reason);
    failure::in_the_middle(&again, &reason.to_string())
}

fn move_into_memory(started: Duration) {
    let (arguments, mut environment) = entry::arguments_and_environment();
    for (name, value) in reexec::origin(started) {
        environment = entry::with_variable(environment, name, value.display());
    }
    let Err(error) = memory::move_into(&arguments, &crash::with_page(environment));
    tracing::warn!("PID 1 runs from its file and not from memory: {error}; a dead root disk can stop it");
}

/// Runs the host. Returns only when that could not begin, with the reason.
fn run(mut options: Options, started: Duration, now: Duration, boot_reason: BootReason) -> Error {
    boot::file_limit::reserve_table();
    log::write_from_a_thread();
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    // Before the end of a run, too: what it needs must not be read from swap.
    let oom_score = protection::protect(options.mode);
    let mut swap = swap::Guard::new(options.runtime_dir.join("state"));
    match options.mode {
        Mode::Machine => swap.look(),
        Mode::Container => boot::runtime_dir::choose(&mut options),
    }
    if let Some(ending) = boot_reason.ending {
        end_again(&options, &boot_reason, ending);
    }
    let (began, kernel, earlier) = match options.mode {
        Mode::Machine => {
            let (began, earlier) = history::take(started);
            (began, Some(began), earlier)
        }
        Mode::Container => (started, None, Vec::new()),
    };
    let mut past = reexec::past(&options);
    if past.is_none() && options.runtime_place == RuntimePlace::Nowhere {
        reexec::end_what_is_unknown();
    }
    let shared = (options.runtime_place == RuntimePlace::Shared).then(|| options.runtime_dir.clone());
    if let Some(crash) = boot_reason.crash.as_ref().filter(|_| boot_reason.too_often(options.crash_limit)) {
        let reason = report::too_often(crash, boot_reason.crashes, options.crash_limit);
        last_resort::run(&options, &boot_reason, past, now.saturating_sub(began), &reason);
    }
    let limits = match boot::file_limit::raise() {
        Ok(was) => vec![was],
        Err(error) => {
            tracing::warn!("the limit on open files stays as it is: {error}");
            Vec::new()
        }
    };
    let (runtime, watcher) = match runtime().at("no runtime") {
        Ok(made) => made,
        Err(error) => return error,
    };
    // Not at its first line: all incarnations count their times from the same start.
    let age = history::since_kernel().saturating_sub(began);
    let sequence = Sequence::new(age, kernel, earlier);
    let reexec_state: Option<reexec::ReexecState> =
        past.as_mut().and_then(|past| past.paper(Kind::ReexecState, ""));
    // PID 1 has raised its limits already: its children get those that the first incarnation began with.
    let limits = reexec_state.as_ref().map_or(limits, |reexec_state| reexec_state.limits.clone());
    let reexec_state = reexec::ReexecState { limits, oom_score, ..reexec_state.unwrap_or_default() };
    tracing::info!("version {}, {} mode", env!("CARGO_PKG_VERSION"), options.mode.name());
    runtime.block_on(async {
        let (mode, panic, exit) = (options.mode, options.failure_wait(), options.exit.clone());
        if let Err(error) = watcher.begin() {
            tracing::error!("a main loop that stands still would not be noticed: {error}");
        }
        if mode == Mode::Machine {
            kelson_sys::spawn(swap.watch());
        }
        let ends = boot_reason.clone();
        match supervisor::run(options, sequence, reexec_state, past, boot_reason).await {
            Ok(ended) => {
                ends.follow(ended.intents.watch());
                let failure =
                    ended.failure.map(|failure| Failure { reason: failure.to_string(), wait: panic });
                shutdown::finish(Finish {
                    intents: ended.intents,
                    mode,
                    cgroups: ended.personalities.processes.cgroups().cloned(),
                    launcher: ended.personalities.tasks(),
                    // The owner of a container waits for no more than the total deadline.
                    patience: if mode == Mode::Container { ended.left } else { failure::TIMEOUT },
                    failure,
                    watchdog: ended.watchdog,
                    shared,
                    exit,
                })
                .await
            }
            Err(why) => why,
        }
    })
}

/// The main loop, and what notices when it stands still.
fn runtime() -> std::io::Result<(Runtime, Watcher)> {
    let watcher = Watcher::new()?;
    let (rests, wakes) = (watcher.clone(), watcher.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || rests.rests())
        .on_thread_unpark(move || wakes.wakes())
        .on_thread_start(|| drop(crash::alternate_stack()))
        .build()?;
    Ok((runtime, watcher))
}

/// The previous incarnation crashed on its way to the end of the run, past its services: the way is gone on.
fn end_again(options: &Options, boot_reason: &BootReason, Ending { action, status }: Ending) -> ! {
    let crash = boot_reason.crash.as_ref().map(report::what).unwrap_or_default();
    tracing::error!("PID 1 crashed on its way to the {}: {crash}; it goes on", supervisor::verb(action));
    boot_reason.reported();
    boot_reason.last(failure::TIMEOUT.saturating_mul(2));
    let intents = Intents::default();
    let reason = "the previous incarnation".to_owned();
    intents.resume(Intent { action, reason, begun: history::since_kernel(), status });
    failure::end(options, &intents, None, kelson_runner::Options::default(), async |_| {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_alone_decides() {
        let name = |program| personality(program).map(|(name, _)| name);
        for &(name, _) in PERSONALITIES {
            assert_eq!(personality(name.to_str().unwrap()).map(|(known, _)| known), Some(name));
        }
        assert_eq!(name("/usr/sbin/reboot"), Some(c"reboot"));
        for init in ["/sbin/init", "/init", "", "/kelson-task/init"] {
            assert_eq!(name(init), None, "{init}");
        }
    }
}
