//! Kelson beside a bare C loop, s6 and runit, in one run: how long they take, and what they cost.
//!
//! `make bench` runs it; docs/bench.md says how it measures and why. The table goes to stdout, every number that was
//! measured to the file that `--json` names.

mod board;
mod cost;
mod measure;
mod system;
mod table;

use std::ffi::{CStr, CString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::exit;

use kelson_tests::paths;

use measure::{Figures, Plan};
use system::{Programs, System};

const USAGE: &str = "\
Usage: kelson-bench --programs DIR [--json FILE] [--services N] [--chain N] [--rounds N] [--idle SECONDS]
                    [--idle-rounds N] [--kills N] [--only NAME,NAME…]
DIR holds `service`, `service-bare` and `loop`, built from hack/bench-programs. The names are those of the table's head.
";

fn main() {
    let mut plan = Plan { services: 1000, chain: 200, rounds: 5, idle: 20, idle_rounds: 2, kills: 30 };
    let (mut programs, mut json, mut systems) = (None, None, System::ALL.to_vec());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| usage());
        match word.as_str() {
            "--programs" => programs = Some(PathBuf::from(value)),
            "--json" => json = Some(PathBuf::from(value)),
            "--services" => plan.services = number(&value),
            "--chain" => plan.chain = number(&value),
            "--rounds" => plan.rounds = number(&value),
            "--idle" => plan.idle = number(&value) as u64,
            "--idle-rounds" => plan.idle_rounds = number(&value),
            "--kills" => plan.kills = number(&value),
            "--only" => systems.retain(|system| value.split(',').any(|name| name == system.name())),
            _ => usage(),
        }
    }
    let programs = programs.unwrap_or_else(|| usage());
    let programs =
        fs::canonicalize(&programs).unwrap_or_else(|error| fail(&programs.display().to_string(), &error));
    let programs = Programs {
        service: programs.join("service"),
        bare_service: programs.join("service-bare"),
        bare_loop: programs.join("loop"),
        init: paths::binary("init"),
        ctl: paths::binary("kelsonctl"),
    };

    let base = std::env::temp_dir().join(format!("kelson-bench-{}", std::process::id()));
    fs::create_dir(&base).unwrap_or_else(|error| fail(&base.display().to_string(), &error));
    private_tmpfs(&base);
    raise_open_files();
    let mut figures = Figures::default();
    // A round that is not counted: every program has been read, every cache is warm.
    let warm = Plan { services: plan.services.min(50), chain: 2, idle: 0, idle_rounds: 0, kills: 1, ..plan };
    for system in &systems {
        measure::round(*system, 0, &warm, &base, &programs, &mut Figures::default());
    }
    for round in 0..plan.rounds {
        for system in &systems {
            eprintln!("round {} of {}: {}", round + 1, plan.rounds, system.name());
            measure::round(*system, round, &plan, &base, &programs, &mut figures);
        }
    }
    // Nothing is left in it. What is below the mount is what others see.
    let _ = std::process::Command::new("umount").args(["--lazy".as_ref(), base.as_os_str()]).status();
    let _ = fs::remove_dir(&base);
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&figures.to_json()).expect("numbers under names");
        fs::write(&file, text).unwrap_or_else(|error| fail(&file.display().to_string(), &error));
    }
    print!("{}", table::render(&figures, plan.services, plan.chain, plan.idle));
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| usage())
}

fn usage() -> ! {
    eprint!("{USAGE}");
    exit(2)
}

fn fail(what: &str, error: &std::io::Error) -> ! {
    eprintln!("kelson-bench: {what}: {error}");
    exit(1)
}

/// From here on `folder` is an empty tmpfs that only this process and its children see: no disk is measured, and
/// nothing is left behind, whatever happens.
fn private_tmpfs(folder: &Path) {
    let path = CString::new(folder.to_string_lossy().into_owned()).expect("a path without NUL");
    let mount = |source: &CStr, target: &CStr, kind: &CStr, flags| {
        // SAFETY: C strings that live through the call; no data.
        let result =
            unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) };
        if result != 0 {
            fail("a tmpfs of its own (this has to run as root)", &std::io::Error::last_os_error());
        }
    };
    // SAFETY: this process has one thread; nothing it has open changes.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        fail("a mount namespace (this has to run as root)", &std::io::Error::last_os_error());
    }
    mount(c"none", c"/", c"", libc::MS_REC | libc::MS_PRIVATE);
    mount(c"kelson-bench", &path, c"tmpfs", 0);
}

/// A pipe for each of 1,000 services in one process takes more than the usual 1024.
fn raise_open_files() {
    // SAFETY: a live rlimit, filled before it is used.
    unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
