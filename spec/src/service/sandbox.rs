//! What a process may not do, whatever its user and its capabilities.

use serde::{Deserialize, Serialize};

/// The kernel's bounds of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sandbox {
    /// Each once.
    pub protect: Vec<Protection>,
    /// Each once.
    pub restrict: Vec<Restriction>,
    /// The kinds of namespaces that it may make and enter (`CLONE_NEW*`).
    pub namespaces: Selection,
    /// The families of sockets that it may make: bit n is the family n.
    pub address_families: Selection,
    pub system_calls: SystemCalls,
    /// The program for the kernel that all this makes: each instruction as it is in memory. `kelson-load` compiles it, for the
    /// machine on which it runs; empty: nothing is filtered.
    pub filter: Vec<u64>,
}

impl Sandbox {
    /// The capabilities that are taken away.
    pub fn denied_capabilities(&self) -> u64 {
        self.protect.iter().fold(0, |mask, protection| mask | protection.denied_capabilities())
    }
}

/// A part of the machine that a process cannot change, or see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protection {
    KernelTunables,
    KernelModules,
    KernelLogs,
    Clock,
    Hostname,
    ControlGroups,
    /// Those of other users.
    Processes,
    /// All of `/proc` but processes.
    KernelFiles,
}

impl Protection {
    /// With the words of the service file.
    pub const WORDS: [(&str, Protection); 8] = [
        ("kernelTunables", Protection::KernelTunables),
        ("kernelModules", Protection::KernelModules),
        ("kernelLogs", Protection::KernelLogs),
        ("clock", Protection::Clock),
        ("hostname", Protection::Hostname),
        ("controlGroups", Protection::ControlGroups),
        ("processes", Protection::Processes),
        ("kernelFiles", Protection::KernelFiles),
    ];

    /// The word of the service file.
    pub fn name(self) -> &'static str {
        Self::WORDS.into_iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    fn denied_capabilities(self) -> u64 {
        match self {
            Protection::KernelModules => 1 << SYS_MODULE,
            Protection::KernelLogs => 1 << SYSLOG,
            Protection::Clock => 1 << SYS_TIME | 1 << WAKE_ALARM,
            _ => 0,
        }
    }

    /// Whether files look different for the process.
    pub fn has_view(self) -> bool {
        !matches!(self, Protection::Clock | Protection::Hostname)
    }
}

/// Numbers of `<linux/capability.h>`.
const SYS_MODULE: u32 = 16;
const SYS_TIME: u32 = 25;
const SYSLOG: u32 = 34;
const WAKE_ALARM: u32 = 35;

/// Something that a process cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restriction {
    /// Realtime scheduling.
    Realtime,
    /// Another personality of the kernel.
    Personality,
    /// Files with the set-user-id or set-group-id bit.
    SetUserId,
    /// Memory that it can both write and execute, or could.
    WritableCode,
    /// Input and output on ports of the machine.
    RawIo,
    /// Calls as programs of other architectures make them.
    OtherArchitectures,
}

impl Restriction {
    /// With the words of the service file.
    pub const WORDS: [(&str, Restriction); 6] = [
        ("realtime", Restriction::Realtime),
        ("personality", Restriction::Personality),
        ("setUserId", Restriction::SetUserId),
        ("writableCode", Restriction::WritableCode),
        ("rawIo", Restriction::RawIo),
        ("otherArchitectures", Restriction::OtherArchitectures),
    ];
}

/// Some of many, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Selection {
    #[default]
    All,
    /// These and no others.
    Allow(u64),
    /// All but these.
    Deny(u64),
}

impl Selection {
    /// All kinds of namespaces.
    pub const NAMESPACES: u64 = 0x7e02_0080;
    /// The words of the service file for these.
    pub const NAMESPACE_WORDS: [(&str, u64); 8] = [
        ("cgroup", 0x0200_0000),
        ("ipc", 0x0800_0000),
        ("mnt", 0x0002_0000),
        ("net", 0x4000_0000),
        ("pid", 0x2000_0000),
        ("time", 0x80),
        ("user", 0x1000_0000),
        ("uts", 0x0400_0000),
    ];

    /// The words for families of sockets, and their numbers.
    #[rustfmt::skip]
    pub const FAMILY_WORDS: [(&str, u32); 45] = [
        ("unix", 1), ("inet", 2), ("ax25", 3), ("ipx", 4), ("appletalk", 5), ("netrom", 6), ("bridge", 7),
        ("atmpvc", 8), ("x25", 9), ("inet6", 10), ("rose", 11), ("decnet", 12), ("netbeui", 13), ("security", 14),
        ("key", 15), ("netlink", 16), ("packet", 17), ("ash", 18), ("econet", 19), ("atmsvc", 20), ("rds", 21),
        ("sna", 22), ("irda", 23), ("pppox", 24), ("wanpipe", 25), ("llc", 26), ("ib", 27), ("mpls", 28),
        ("can", 29), ("tipc", 30), ("bluetooth", 31), ("iucv", 32), ("rxrpc", 33), ("isdn", 34), ("phonet", 35),
        ("ieee802154", 36), ("caif", 37), ("alg", 38), ("nfc", 39), ("vsock", 40), ("kcm", 41), ("qipcrtr", 42),
        ("smc", 43), ("xdp", 44), ("mctp", 45),
    ];
}

/// The system calls of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemCalls {
    /// Names of calls and of groups (`@system-service`); empty: all.
    pub allow: Vec<String>,
    /// Without these.
    pub deny: Vec<String>,
    /// What a call that is not allowed gets.
    pub answer: CallAnswer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallAnswer {
    /// It fails with this error.
    Error(u16),
    /// It ends the process with SIGSYS.
    Kill,
}

impl Default for CallAnswer {
    fn default() -> Self {
        CallAnswer::Error(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protections_take_the_capabilities_that_would_undo_them() {
        let protect = Protection::WORDS.map(|(_, protection)| protection).to_vec();
        let sandbox = Sandbox { protect, ..Sandbox::default() };
        let names: Vec<&str> = (0..64)
            .filter(|bit| sandbox.denied_capabilities() & (1 << bit) != 0)
            .map(|bit| crate::kernel::CAPABILITIES[bit])
            .collect();
        assert_eq!(names, ["sys_module", "sys_time", "syslog", "wake_alarm"]);
        for (name, protection) in Protection::WORDS {
            assert_eq!(protection.name(), name);
        }
    }
}
