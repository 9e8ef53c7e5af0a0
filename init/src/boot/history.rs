//! The operations of our own initramfs, passed across `execve` to the boot that goes on after it: its phase in JSON, in
//! a file on `/run`, which is moved to the real root. Times count from the kernel's start.

use std::time::Duration;

use kelson_services::host::PhaseRecord;

/// Where it is.
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

/// When PID 1 began, since the kernel's start, and what it did in the initramfs, its times counted from that
/// beginning. `now` is for a boot that had no initramfs of ours.
pub fn take(now: Duration) -> (Duration, Vec<PhaseRecord>) {
    taken(&std::fs::read(PATH).unwrap_or_default(), now)
}

fn taken(text: &[u8], now: Duration) -> (Duration, Vec<PhaseRecord>) {
    let Ok(mut phase) = serde_json::from_slice::<PhaseRecord>(text) else { return (now, Vec::new()) };
    let began = phase.start;
    phase.start = Duration::ZERO;
    for task in &mut phase.tasks {
        task.start = task.start.saturating_sub(began);
    }
    (began, vec![phase])
}

#[cfg(test)]
mod tests {
    use kelson_services::host::TaskRecord;

    use super::*;

    #[test]
    fn a_phase_survives_the_way() {
        let micros = Duration::from_micros;
        let task = TaskRecord {
            name: "root".to_owned(),
            start: micros(1400),
            duration: Some(micros(7)),
            error: Some("bad".to_owned()),
            message: String::new(),
        };
        let phase = PhaseRecord {
            name: "initramfs".to_owned(),
            start: micros(1000),
            duration: Some(micros(500)),
            tasks: vec![task.clone()],
        };
        let text = serde_json::to_vec(&phase).unwrap();
        let tasks = vec![TaskRecord { start: micros(400), ..task }];
        let counted = PhaseRecord { start: Duration::ZERO, tasks, ..phase };
        assert_eq!(taken(&text, micros(2000)), (micros(1000), vec![counted]));
        assert_eq!(taken(b"nonsense", micros(2000)), (micros(2000), Vec::new()));
    }
}
