//! The resources that PID 1 uses itself.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Each is absent where the kernel does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InitFigures {
    /// Resident, with the text that it shares with its personalities.
    pub memory_bytes: Option<u64>,
    pub cpu: Option<Duration>,
    pub descriptors: Option<u64>,
}

impl InitFigures {
    /// Of this very process: its own files of proc cannot hang.
    pub fn now() -> InitFigures {
        InitFigures { memory_bytes: resident(), cpu: cpu(), descriptors: descriptors() }
    }
}

/// From smaps_rollup, as statm may be wrong by some hundred kilobytes.
fn resident() -> Option<u64> {
    rss(&std::fs::read_to_string("/proc/self/smaps_rollup").ok()?)
}

fn rss(smaps: &str) -> Option<u64> {
    let value = smaps.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn cpu() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).ok().map(Duration::from)
}

/// Since Linux 6.2 the size of the folder is their number; before, they are counted.
fn descriptors() -> Option<u64> {
    let folder = "/proc/self/fd";
    match std::fs::metadata(folder).ok()?.len() {
        0 => u64::try_from(std::fs::read_dir(folder).ok()?.count()).ok(),
        number => Some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words() {
        let smaps = "55e-7ff ---p 00000000 00:00 0    [rollup]\nRss:                4096 kB\nPss:  1000 kB\n";
        assert_eq!(rss(smaps), Some(4096 * 1024));
        assert_eq!(rss("Pss:  1000 kB\n"), None);
        assert_eq!(rss("Rss:  18446744073709551615 kB\n"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let before = InitFigures::now();
        assert!(before.memory_bytes.unwrap() > 100_000, "{before:?}");
        assert!(before.cpu.unwrap() > Duration::ZERO, "{before:?}");
        let open: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let after = InitFigures::now();
        // Other tests of this process open and close some of their own.
        assert!(after.descriptors.unwrap() >= 50, "{after:?}");
        drop(open);
    }
}
