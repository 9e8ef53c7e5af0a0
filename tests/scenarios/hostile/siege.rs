//! A host under a fault, and what becomes of its services.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kelson_tests::chaos::Toll;
use kelson_tests::{Host, PATIENCE, Service, eventually, until};

use super::Fault;

/// Services that write numbered lines all the time.
pub const WRITERS: usize = 6;
/// No write of a service may take longer.
const BOUND: Duration = Duration::from_secs(2);
/// No question may stay unanswered for longer.
const ANSWER: Duration = Duration::from_secs(10);

pub fn writer(n: usize) -> String {
    format!("n-{n}")
}

/// Injects the fault so often into a host of its own, prints the toll, and panics unless nothing was lost.
#[track_caller]
pub fn endure(fault: &Fault, times: u32) {
    let mut builder = Host::builder();
    for n in 0..WRITERS {
        let steps = format!("'beat=5ms:60:$DIR/{}'", writer(n));
        let yaml = format!("process: {{command: [$PROGRAM, {steps}]}}\nlogs: {{maxSize: 1Gi}}");
        builder = builder.service(&writer(n), &yaml);
    }
    builder = builder
        .runs("idle", "serve")
        .service("done", "process: {command: [$PROGRAM]}\ntype: oneshot")
        .runs_with("told", "'notify=READY=1', serve", "readiness: notify");
    let mut host = (fault.host)(builder).start();
    for n in 0..WRITERS {
        host.wait_log(&writer(n), "beat 1 ");
    }
    host.wait_finished("done");
    host.wait_up("told");
    eventually("all to be as they stay", || watched(&host).values().all(|now| now.name == "done" || now.up));
    let before = watched(&host);

    let mut toll = Toll::of(fault.name);
    for _ in 0..times {
        toll.times += 1;
        if toll.attempt(|| (fault.inject)(&host)).is_none() {
            break;
        }
        let begun = Instant::now();
        let after = watched(&host);
        if begun.elapsed() > ANSWER {
            toll.hangs += 1;
            toll.problems.push(format!("an answer took {:?}", begun.elapsed()));
        }
        toll.compare(&before, &after);
        blocked(&host, &mut toll);
        if toll.lost > Some(0) {
            break;
        }
    }
    toll.attempt(|| host.poweroff());
    for n in 0..WRITERS {
        account(&host, &writer(n), &mut toll);
    }
    toll.tell();
}

/// All but the built-in ones and those of the fault itself.
#[track_caller]
fn watched(host: &Host) -> BTreeMap<String, Service> {
    let all = host.services().into_iter();
    all.filter(|now| !now.builtin && !now.name.starts_with("own-"))
        .map(|now| (now.name.clone(), now))
        .collect()
}

/// Whether a write of a service had to wait.
fn blocked(host: &Host, toll: &mut Toll) {
    for n in 0..WRITERS {
        let (number, longest) = board(host, &writer(n));
        if longest > BOUND {
            toll.hangs += 1;
            toll.problems.push(format!("{}: a write before beat {number} took {longest:?}", writer(n)));
        }
    }
}

/// The last number that a writer has written, and how long its longest write took.
#[track_caller]
pub fn board(host: &Host, name: &str) -> (u64, Duration) {
    until(&format!("{name} to write"), PATIENCE, || {
        let text = fs::read_to_string(host.path(name)).ok()?;
        let mut words = text.split_whitespace();
        let (number, longest) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((number, Duration::from_millis(longest)))
    })
}

/// Returns once the log of each writer, in this folder, holds a line that was written after this was called.
#[track_caller]
pub fn logs_go_on(host: &Host, folder: &str) {
    for name in (0..WRITERS).map(writer) {
        let (number, _) = board(host, &name);
        until(&format!("the log of {name} in {folder} to go on after {number}"), PATIENCE, || {
            let text = fs::read_to_string(host.path(&format!("{folder}/{name}.log"))).unwrap_or_default();
            text.lines().rev().find_map(beat).filter(|last| *last > number + 2)
        });
    }
}

fn beat(line: &str) -> Option<u64> {
    line.split_once(" beat ")?.1.split_whitespace().next()?.parse().ok()
}

/// All logs of a service, wherever the fault had them written: any folder of the test's own, and the runtime folder's.
fn logs(host: &Host, name: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(host.dir()).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = folders.chain([host.path("run/log")]).map(|folder| folder.join(format!("{name}.log")));
    all.filter(|file| file.is_file()).collect()
}

/// Counts the lines that are missing without a word, or there twice.
fn account(host: &Host, name: &str, toll: &mut Toll) {
    let (last, _) = board(host, name);
    let (mut seen, mut twice, mut told) = (BTreeSet::new(), 0, 0);
    for file in logs(host, name) {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap_or_default()).into_owned();
        let (mut before, mut replaced) = (0, false);
        for line in text.lines() {
            if let Some(number) = beat(line) {
                twice += u64::from(!seen.insert(number));
                // A logd that was killed cannot count the lines that it held; a note in their place reports
                // that they may be lost.
                if std::mem::take(&mut replaced) {
                    told += (number - 1).saturating_sub(before);
                }
                before = number;
            } else if line.contains(" note F kelson-logd was replaced; ") {
                replaced = true;
            } else if let Some((count, _)) =
                line.split_once(" note F ").and_then(|(_, note)| note.split_once(" lines ("))
            {
                told += count.parse::<u64>().unwrap_or_default();
            }
        }
    }
    let missing = (1..=last).filter(|number| !seen.contains(number)).count() as u64;
    let unsaid = missing.saturating_sub(told);
    toll.count_lines(unsaid + twice, || {
        format!("{name}: {missing} lines of {last} missing, {told} noted as lost, {twice} twice")
    });
}

/// The events after this number whose text holds `text`.
#[track_caller]
pub fn told_since(host: &Host, after: u64, text: &str) -> usize {
    host.events().iter().filter(|event| event.seq > after && event.message.contains(text)).count()
}

/// Runs a program in the host's own namespaces.
#[track_caller]
pub fn inside(host: &Host, words: &[&str]) {
    let mut command = std::process::Command::new("nsenter");
    command.args(["-t", &host.init_pid().to_string(), "-m", "-p", "--"]).args(words);
    let output = command.output().expect("nsenter(1) can be started");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}
