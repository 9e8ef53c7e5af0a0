//! The reserve of PIDs: however much services fork, PID 1 can make a process.
//!
//! A service whose file says nothing of `pidsMax` gets a share of what this host can have, and all services
//! together leave some of it. The number of PIDs of the host is the least of the kernel's two limits and of
//! those of the cgroups around PID 1; it is read when the first service is set up, after the machine file's
//! own settings.

use std::fs;
use std::path::Path;

/// Where PID 1 itself sits in a container. No service has this name: theirs hold no underscore.
pub(super) const INIT: &str = "_init";
/// The share of one service, in percent.
const SHARE: u64 = 15;
/// Fewer are too few for many a program, where half of all is not less still.
const LEAST_SHARE: u64 = 64;
/// All services together leave a tenth, and not less than this.
const LEAST_RESERVE: u64 = 128;
/// Where each cgroup above PID 1's is looked at; deeper than any host nests them.
const DEPTH: usize = 64;

/// Processes and threads that services can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pids {
    /// One service that says nothing itself.
    pub(super) share: u64,
    /// All of them together.
    pub(super) all: u64,
}

impl Pids {
    /// The limit of a service on a host with this limit.
    pub(super) fn of(limit: u64) -> Pids {
        let half = limit.checked_div(2).unwrap_or_default().max(1);
        let part = |percent: u64| limit.saturating_mul(percent).checked_div(100).unwrap_or_default();
        Pids {
            share: part(SHARE).max(LEAST_SHARE).min(half),
            all: limit.saturating_sub(part(10).max(LEAST_RESERVE)).max(half),
        }
    }

    /// As the kernel tells; `own` is PID 1's cgroup. `None`: it tells nothing.
    pub(super) fn read(own: &Path) -> Option<Pids> {
        let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let kernel = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
        let kernel = kernel.into_iter().filter_map(|path| number(Path::new(path)));
        // Its root has no such file, and one that says "max" limits nothing.
        let above = own.ancestors().take(DEPTH).filter_map(|folder| number(&folder.join("pids.max")));
        kernel.chain(above).min().map(Pids::of)
    }
}

/// Has all services together leave the reserve. Where PID 1 sits among them, the limit would be its own as well.
pub(super) fn reserve(path: &Path, pids: Pids) {
    if path.join(INIT).exists() {
        return;
    }
    if let Err(error) = fs::write(path.join("pids.max"), pids.all.to_string()) {
        tracing::warn!("no PIDs are held back for PID 1: {}: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_part_and_some_is_left() {
        let pids = |limit| {
            let Pids { share, all } = Pids::of(limit);
            (share, all)
        };
        assert_eq!(pids(7800), (1170, 7020));
        assert_eq!(pids(4_194_304), (629_145, 3_774_874));
        // A small container.
        assert_eq!(pids(200), (64, 100));
        assert_eq!(pids(100), (50, 50));
        assert_eq!(pids(1), (1, 1));
        assert_eq!(pids(0), (1, 1));
        assert!(pids(u64::MAX).0 < pids(u64::MAX).1);
    }

    #[test]
    fn the_least_of_all_limits_counts() {
        let top = std::env::temp_dir().join(format!("kelson-pids-{}", std::process::id()));
        let own = top.join("a/b");
        fs::create_dir_all(&own).unwrap();
        let kernel = Pids::read(&own).unwrap();
        fs::write(own.join("pids.max"), "max\n").unwrap();
        assert_eq!(Pids::read(&own), Some(kernel));
        fs::write(top.join("pids.max"), "1000\n").unwrap();
        assert_eq!(Pids::read(&own), Some(Pids { share: 150, all: 872 }));
        fs::write(own.join("pids.max"), "2000\n").unwrap();
        assert_eq!(Pids::read(&own), Some(Pids { share: 150, all: 872 }));
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn pid_1_is_never_below_its_own_reserve() {
        let path = std::env::temp_dir().join(format!("kelson-reserve-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        reserve(&path, Pids::of(1000));
        assert_eq!(fs::read_to_string(path.join("pids.max")).unwrap(), "872");
        fs::create_dir(path.join(INIT)).unwrap();
        reserve(&path, Pids::of(2000));
        assert_eq!(fs::read_to_string(path.join("pids.max")).unwrap(), "872");
        fs::remove_dir_all(&path).unwrap();
    }
}
