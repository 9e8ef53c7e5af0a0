//! The names that are taken: of the built-in services, and of Kelson's own processes.

/// Services that Kelson brings along; others may depend on them, and the machine file may change them.
pub const BUILTINS: [&str; 4] = ["apid", "containerd", "logd", "probe"];

/// Names that no service file may take: the built-ins and the personalities.
pub const RESERVED: [&str; 7] = ["apid", "containerd", "load", "logd", "probe", "task", "unpack"];
