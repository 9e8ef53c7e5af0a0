//! The names that are taken: of the built-in services, and of Kelson's own processes.

/// Services that Kelson brings along; others may depend on them, and the machine file may change them.
pub const BUILTINS: [&str; 4] = ["apid", "containerd", "logd", "probe"];

/// Names that no service file may take: the built-ins, the personalities, and the cgroup of the shims of containers.
pub const RESERVED: [&str; 8] = ["apid", "containerd", "load", "logd", "probe", "shims", "task", "unpack"];
