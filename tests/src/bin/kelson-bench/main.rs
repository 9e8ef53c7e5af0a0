//! Kelson beside its peers and a bare C loop, in one run: how long they take, and what they cost.
//!
//! `hack/bench` runs it; docs/bench.md says how it measures and why. Every number that was measured goes to the file that
//! `--json` names.

mod board;
mod cost;
mod figures;
mod measure;
mod system;

use std::ffi::{CStr, CString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::exit;

use kelson_tests::paths;

use figures::Figures;
use measure::{PARTS, Plan, Round};
use system::{Programs, System};

const USAGE: &str = "\
Usage: kelson-bench --programs DIR --json FILE [--only PART,PART…] [--peers NAME,NAME…]
                    [--services N] [--rounds N] [--idle SECONDS] [--kills N]
DIR holds `service`, `service-bare` and `loop`, built from hack/bench-programs, and may hold `s6-overlay`, the root of a
container. Peers that are not in PATH or in DIR are left out.
";

fn main() {
    let parts = PARTS.into_iter().map(str::to_owned).collect();
    let mut plan = Plan { parts, services: 1000, rounds: 3, idle: 60, kills: 100 };
    let (mut programs, mut json, mut systems) = (None, None, System::ALL.to_vec());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| usage());
        match word.as_str() {
            "--programs" => programs = Some(PathBuf::from(value)),
            "--json" => json = Some(PathBuf::from(value)),
            "--services" => plan.services = number(&value),
            "--rounds" => plan.rounds = number(&value),
            "--idle" => plan.idle = number(&value) as u64,
            "--kills" => plan.kills = number(&value),
            "--only" => plan.parts.retain(|part| value.split(',').any(|name| name == part)),
            "--peers" => systems.retain(|system| value.split(',').any(|name| name == system.name())),
            _ => usage(),
        }
    }
    let (programs, json) = programs.zip(json).unwrap_or_else(|| usage());
    let programs =
        fs::canonicalize(&programs).unwrap_or_else(|error| fail(&programs.display().to_string(), &error));
    let programs = Programs {
        service: programs.join("service"),
        bare_service: programs.join("service-bare"),
        bare_loop: programs.join("loop"),
        overlay: programs.join("s6-overlay"),
        init: paths::binary("init"),
        ctl: paths::binary("kelsonctl"),
    };
    systems.retain(|system| match system {
        System::S6Overlay => programs.overlay.is_dir(),
        _ => system.needs().is_none_or(is_in_path),
    });

    let base = std::env::temp_dir().join(format!("kelson-bench-{}", std::process::id()));
    fs::create_dir(&base).unwrap_or_else(|error| fail(&base.display().to_string(), &error));
    private_tmpfs(&base);
    raise_open_files();
    let mut figures = Figures::default();
    // A round that is not counted: every program has been read, every cache is warm.
    let warm = Plan { parts: plan.parts.clone(), services: plan.services.min(50), kills: 1, ..plan };
    for system in &systems {
        let (plan, base, programs, figures) = (&warm, &base, &programs, &mut Figures::default());
        Round { system: *system, number: 0, plan, base, programs, figures }.measure();
    }
    let save = |figures: &Figures| {
        let text = serde_json::to_string_pretty(&figures.to_json()).expect("numbers under names");
        fs::write(&json, text).unwrap_or_else(|error| fail(&json.display().to_string(), &error));
    };
    for round in 0..plan.rounds {
        for system in &systems {
            eprintln!("round {} of {}: {}", round + 1, plan.rounds, system.name());
            let (plan, base, programs, figures) = (&plan, &base, &programs, &mut figures);
            Round { system: *system, number: round, plan, base, programs, figures }.measure();
            save(figures);
        }
    }
    if plan.has("idle") {
        eprintln!("at rest for {} s", plan.idle);
        measure::idle(&systems, &plan, &base, &programs, &mut figures);
        save(&figures);
    }
    // Nothing is left in it. What is below the mount is what others see.
    let _ = std::process::Command::new("umount").args(["--lazy".as_ref(), base.as_os_str()]).status();
    let _ = fs::remove_dir(&base);
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
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
