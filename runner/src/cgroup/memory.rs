//! Whom the kernel killed for memory: it counts them in `memory.events`, for the cgroup and all below it.

use super::Cgroup;

impl Cgroup {
    /// How many of its processes the kernel has killed since it was made because they had reached the limit, or the
    /// host's memory its end. 0 where memory is not counted.
    pub fn memory_kills(&self) -> u64 {
        if !self.root.controllers().contains(&"memory") {
            return 0;
        }
        self.read_short("memory.events").map_or(0, |events| kills(&events))
    }
}

/// A kill of the whole group is counted by itself, and as many times as there were processes; older kernels know only
/// the second.
fn kills(events: &str) -> u64 {
    let number = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        matches!(name, "oom_kill" | "oom_group_kill").then(|| value.trim().parse::<u64>().ok()).flatten()
    };
    events.lines().filter_map(number).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kills_count() {
        let quiet = "low 3\nhigh 5\nmax 17\noom 2\noom_kill 0\noom_group_kill 0\n";
        assert_eq!(kills(quiet), 0, "a limit that was reached killed nobody");
        assert_eq!(kills("low 0\nhigh 0\nmax 17\noom 2\noom_kill 1\n"), 1);
        assert_eq!(kills("oom 2\noom_kill 4\noom_group_kill 1\n"), 5);
        assert_eq!(kills("oom_kill 18446744073709551615\noom_group_kill 1\n"), u64::MAX);
        assert_eq!(kills(""), 0);
        assert_eq!(kills("oom_kill\noom_kill x\n"), 0);
    }
}
