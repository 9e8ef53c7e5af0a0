//! What our own initramfs did, told across `execve` to the boot that goes on after it.
//!
//! A few lines in a file on `/run`, which is moved to the real root: `start duration name<TAB>message<TAB>error`, times in
//! microseconds since the kernel's start. The first line is the phase as a whole.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use kelson_services::host::{PhaseRecord, TaskRecord};

/// Where the lines are.
pub const PATH: &str = "/run/kelson/initramfs-boot";

/// Since the kernel's start, without the time that the machine was suspended: the clock of all deadlines.
pub fn since_kernel() -> Duration {
    read(nix::time::ClockId::CLOCK_MONOTONIC)
}

/// How long the machine has been suspended since the kernel's start.
pub fn suspended() -> Duration {
    // Read in this order, time that passes in between counts as suspended, and never the other way round.
    let awake = since_kernel();
    read(nix::time::ClockId::CLOCK_BOOTTIME).saturating_sub(awake)
}

fn read(clock: nix::time::ClockId) -> Duration {
    nix::time::clock_gettime(clock).map(Duration::from).unwrap_or_default()
}

/// Writes a phase whose times count from the kernel's start.
pub fn encode(phase: &PhaseRecord) -> String {
    let mut out = String::new();
    let mut line = |start: Duration, duration: Option<Duration>, name: &str, message: &str, error: &str| {
        let plain = |text: &str| text.replace(['\t', '\n'], " ");
        let _ = writeln!(
            out,
            "{} {} {}\t{}\t{}",
            start.as_micros(),
            duration.unwrap_or_default().as_micros(),
            plain(name),
            plain(message),
            plain(error)
        );
    };
    line(phase.start, phase.duration, &phase.name, "", "");
    for task in &phase.tasks {
        line(task.start, task.duration, &task.name, &task.message, task.error.as_deref().unwrap_or_default());
    }
    out
}

/// Reads it back; lines that are not understood are left out. Times still count from the kernel's start.
pub fn decode(text: &str) -> Option<PhaseRecord> {
    let mut tasks = text.lines().filter_map(decode_line);
    let first = tasks.next()?;
    Some(PhaseRecord {
        name: first.name,
        start: first.start,
        duration: first.duration,
        tasks: tasks.collect(),
    })
}

fn decode_line(line: &str) -> Option<TaskRecord> {
    let mut words = line.splitn(3, ' ');
    let start = Duration::from_micros(words.next()?.parse().ok()?);
    let duration = Some(Duration::from_micros(words.next()?.parse().ok()?));
    let mut texts = words.next()?.split('\t');
    let name = texts.next()?.to_owned();
    let message = texts.next().unwrap_or_default().to_owned();
    let error = texts.next().filter(|text| !text.is_empty()).map(str::to_owned);
    Some(TaskRecord { name, start, duration, error, message })
}

/// When PID 1 began, since the kernel's start, and what it did in the initramfs, its times counted from that
/// beginning. `now` is for a boot that had no initramfs of ours.
pub fn take(now: Duration) -> (Duration, Vec<PhaseRecord>) {
    let found = std::fs::read_to_string(Path::new(PATH)).ok().and_then(|text| decode(&text));
    let Some(mut phase) = found else { return (now, Vec::new()) };
    let began = phase.start;
    phase.start = Duration::ZERO;
    for task in &mut phase.tasks {
        task.start = task.start.saturating_sub(began);
    }
    (began, vec![phase])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_survives_the_way() {
        let micros = Duration::from_micros;
        let phase = PhaseRecord {
            name: "initramfs".to_owned(),
            start: micros(1000),
            duration: Some(micros(500)),
            tasks: vec![
                TaskRecord {
                    name: "load modules".to_owned(),
                    start: micros(1001),
                    duration: Some(micros(400)),
                    error: None,
                    message: "9 loaded".to_owned(),
                },
                TaskRecord {
                    name: "root".to_owned(),
                    start: micros(1400),
                    duration: Some(micros(7)),
                    error: Some("bad".to_owned()),
                    message: String::new(),
                },
            ],
        };
        assert_eq!(decode(&encode(&phase)), Some(phase));
        assert_eq!(decode("nonsense\n"), None);
    }
}
