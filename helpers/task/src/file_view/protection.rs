//! The files of the kernel that a protection takes from a process; those of systemd's `Protect…=`.

use std::path::Path;

use kelson_spec::service::Protection;

use super::{Act, Rule};

/// Files that change the kernel, or tell where it is in memory.
const TUNABLES: [(Act, &str); 17] = [
    (Act::ReadOnly, "/proc/acpi"),
    (Act::ReadOnly, "/proc/apm"),
    (Act::ReadOnly, "/proc/asound"),
    (Act::ReadOnly, "/proc/bus"),
    (Act::ReadOnly, "/proc/fs"),
    (Act::ReadOnly, "/proc/irq"),
    (Act::Hidden, "/proc/kallsyms"),
    (Act::Hidden, "/proc/kcore"),
    (Act::ReadOnly, "/proc/latency_stats"),
    (Act::ReadOnly, "/proc/mtrr"),
    (Act::ReadOnly, "/proc/scsi"),
    (Act::ReadOnly, "/proc/sys"),
    (Act::ReadOnly, "/proc/sysrq-trigger"),
    (Act::ReadOnly, "/proc/timer_stats"),
    (Act::ReadOnly, "/sys"),
    // The own cgroup is no knob of the kernel.
    (Act::Writable, "/sys/fs/cgroup"),
    (Act::Writable, "/sys/fs/selinux"),
];
const MODULES: [(Act, &str); 2] = [(Act::Hidden, "/lib/modules"), (Act::Hidden, "/usr/lib/modules")];
const LOGS: [(Act, &str); 2] = [(Act::Hidden, "/proc/kmsg"), (Act::Hidden, "/dev/kmsg")];
const CONTROL_GROUPS: [(Act, &str); 1] = [(Act::ReadOnly, "/sys/fs/cgroup")];

/// The rules of protections with these names. `None`: one is not known.
pub(super) fn rules(names: &[&str]) -> Option<Vec<Rule<'static>>> {
    let mut rules = Vec::new();
    let (mut is_own, mut is_bare) = (false, false);
    for name in names {
        let (_, protection) = Protection::WORDS.into_iter().find(|(known, _)| known == name)?;
        let files: &[(Act, &'static str)] = match protection {
            Protection::KernelTunables => &TUNABLES,
            Protection::KernelModules => &MODULES,
            Protection::KernelLogs => &LOGS,
            Protection::ControlGroups => &CONTROL_GROUPS,
            Protection::Processes => {
                is_own = true;
                &[]
            }
            Protection::KernelFiles => {
                is_bare = true;
                &[]
            }
            Protection::Clock | Protection::Hostname => &[],
        };
        rules.extend(files.iter().map(|(act, path)| {
            // A file that names a path stands against all but this.
            let rank = if *act == Act::Writable { 0 } else { 4 };
            Rule {
                act: *act,
                rank,
                path: Path::new(*path),
                source: Path::new(""),
                may_be_missing: true,
                volume: None,
            }
        }));
    }
    if is_own || is_bare {
        let act = Act::Processes { is_own, is_bare };
        rules.push(Rule {
            act,
            rank: 1,
            path: Path::new("/proc"),
            source: Path::new(""),
            may_be_missing: false,
            volume: None,
        });
    }
    Some(rules)
}
