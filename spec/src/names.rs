//! The names that are taken: of the built-in services, and of Kelson's own processes.

/// Services that Kelson brings along; others may depend on them, and the machine file may change them.
pub const BUILTINS: [&str; 4] = ["apid", "containerd", "logd", "probe"];

/// Names that no service file may take: the built-ins, the personalities, the cgroup of the shims of containers, and the
/// log of who changed what.
pub const RESERVED: [&str; 9] =
    ["apid", "audit", "containerd", "load", "logd", "probe", "shims", "task", "unpack"];
