//! A service that injects faults into the PID 1 that has started it, and judges what becomes of all other services.
//!
//! It is given words of the form `name=value`, tells on stdout how far it is, and ends with one line that begins with
//! `VERDICT`. [`kelson_tests::chaos`] says what it finds on the host and what the verdict is made of.

mod end;
mod fault;
mod judge;
mod life;

use std::path::PathBuf;
use std::process::exit;
use std::time::Duration;

use fault::Fault;
use judge::Judge;

/// The faults to inject, and their target.
pub struct Plan {
    /// They take turns.
    pub faults: Vec<Fault>,
    pub name: String,
    pub times: u32,
    pub pause: Duration,
    pub bound: Duration,
    pub runtime: PathBuf,
    pub logs: PathBuf,
    pub files: PathBuf,
    /// The folder of the service files.
    pub config: PathBuf,
}

fn main() {
    let mut plan = Plan {
        faults: Vec::new(),
        name: String::new(),
        times: 1,
        pause: Duration::ZERO,
        bound: Duration::from_secs(20),
        runtime: PathBuf::from("/run/kelson"),
        logs: PathBuf::from("/var/log/kelson"),
        files: PathBuf::from("/tmp"),
        config: PathBuf::from("/etc/kelson/services"),
    };
    for word in std::env::args().skip(1) {
        let (name, value) = word.split_once('=').unwrap_or_else(|| usage(&word));
        match name {
            "fault" => {
                plan.name = value.to_owned();
                let faults =
                    value.split(',').map(|fault| Fault::named(fault).unwrap_or_else(|| usage(&word)));
                plan.faults = faults.collect();
            }
            "times" => plan.times = value.parse().unwrap_or_else(|_| usage(&word)),
            "pause" => plan.pause = duration(value).unwrap_or_else(|| usage(&word)),
            "bound" => plan.bound = duration(value).unwrap_or_else(|| usage(&word)),
            "runtime" => plan.runtime = value.into(),
            "logs" => plan.logs = value.into(),
            "files" => plan.files = value.into(),
            "config" => plan.config = value.into(),
            _ => usage(&word),
        }
    }
    if plan.faults.is_empty() {
        usage("no fault=");
    }
    let verdict = Judge::new(plan).judge();
    let text = serde_json::to_string(&verdict).expect("numbers and texts under names");
    // Before the line that is looked for, so that a reader has them.
    verdict.problems.iter().for_each(|problem| println!("problem: {problem}"));
    println!("{}{text}", kelson_tests::chaos::MARK);
}

fn duration(text: &str) -> Option<Duration> {
    match text.strip_suffix("ms") {
        Some(millis) => millis.parse().ok().map(Duration::from_millis),
        None => text.strip_suffix('s')?.parse().ok().map(Duration::from_secs),
    }
}

fn usage(word: &str) -> ! {
    eprintln!(
        "kelson-chaos: {word} is not understood; wanted are fault=NAME,… ({}), times=N, pause=D, bound=D, runtime=DIR, \
         logs=DIR, files=DIR, config=DIR",
        fault::NAMES.join(", ")
    );
    exit(2)
}
