//! Memory and swap.

use kelson_proto::v1::MemoryResponse;

use crate::answer::Unanswered;
use crate::pressure;
use crate::system::System;

/// # Errors
/// When proc does not say it.
pub fn read(system: &System) -> Result<MemoryResponse, Unanswered> {
    let text = system.proc("meminfo").map_err(|error| Unanswered::reading("/proc/meminfo", &error))?;
    let bytes = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number.unwrap_or(0).saturating_mul(1024)
    };
    Ok(MemoryResponse {
        total: bytes("MemTotal"),
        free: bytes("MemFree"),
        available: bytes("MemAvailable"),
        buffers: bytes("Buffers"),
        cached: bytes("Cached"),
        shared: bytes("Shmem"),
        slab: bytes("Slab"),
        slab_reclaimable: bytes("SReclaimable"),
        swap_total: bytes("SwapTotal"),
        swap_free: bytes("SwapFree"),
        dirty: bytes("Dirty"),
        committed: bytes("Committed_AS"),
        commit_limit: bytes("CommitLimit"),
        pressure: pressure::read(system, "memory"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Played;

    #[test]
    fn numbers_are_bytes_and_what_is_missing_is_none() {
        let text =
            "MemTotal:        1000 kB\nMemFree:  10 kB\nMemAvailable: x kB\nCached: 7 kB\nSwapCached: 9 kB\n";
        let played = Played::new(&[("proc/meminfo", text)]);
        let memory = read(&played.system).unwrap();
        assert_eq!((memory.total, memory.free, memory.cached), (1_024_000, 10_240, 7168));
        assert_eq!((memory.available, memory.pressure), (0, None));
        let none = read(&Played::new(&[]).system).unwrap_err();
        assert_eq!(none.to_string(), "/proc/meminfo cannot be read: No such file or directory");
    }

    #[test]
    fn this_machine_has_memory() {
        let memory = read(&System::real()).unwrap();
        assert!(memory.total > memory.available && memory.available > 0, "{memory:?}");
    }
}
