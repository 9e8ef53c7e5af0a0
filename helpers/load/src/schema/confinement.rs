//! What bounds a service.

use super::kinds::{capabilities, choice};
use super::{Kind, Mapping, with, without};

/// The least that a cgroup's memory may be bounded to.
const LEAST_MEMORY: u64 = 64 << 10;

pub(super) fn resources() -> Mapping {
    let keys = [
        without(
            "memoryMax",
            Kind::Size(LEAST_MEMORY),
            "no limit",
            "`memory.max`: above it the kernel ends a process of the service",
        ),
        without(
            "memoryHigh",
            Kind::Size(LEAST_MEMORY),
            "no limit",
            "`memory.high`: above it the service is slowed down",
        ),
        without("cpuMax", Kind::Cpus, "no limit", "`cpu.max`, with a period of 100 ms"),
        without("cpuWeight", Kind::Number(1..=10_000), "the kernel's 100", "`cpu.weight`"),
        without(
            "pidsMax",
            Kind::Number(1..=4_194_304),
            "15 % of [what the host can have](machine-file.md#what-pid-1-keeps-for-itself)",
            "`pids.max`; threads count too",
        ),
    ];
    Mapping::new("resources", keys)
}

pub(super) fn security() -> Mapping {
    let keys = [
        with("noNewPrivileges", Kind::Boolean, "true", "setuid programs and file capabilities give nothing"),
        with(
            "readOnlyRoot",
            Kind::Boolean,
            "false",
            "in a mount namespace of its own each mount is read-only, also `/run` and `/tmp`; \
             [later ones](boot.md#mounts-of-services) become so when they arrive. For a container only its root, not its `mounts`",
        ),
        with(
            "capabilities",
            Kind::Mapping(capability_lists),
            "{}",
            "all (for a container [the usual ones](#container)) without `drop`, and with `add`",
        ),
        with(
            "seccomp",
            choice(&["default", "unconfined"]),
            "default",
            "`default`: the profile that container runtimes use. `unconfined`: no filter",
        ),
    ];
    Mapping::new("security", keys)
}

fn capability_lists() -> Mapping {
    let keys = [
        with("drop", capabilities(), "[]", "names such as `net_bind_service`, `CAP_CHOWN`, or `all`"),
        with("add", capabilities(), "[]", "capabilities that a user other than root has, too"),
    ];
    Mapping::new("capabilities", keys)
}
