//! Facts about a service and its host that a variable can have.

use serde::{Deserialize, Serialize};

/// A word of `environmentFacts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// The name of the service.
    Service,
    HostName,
    /// Another one after each boot.
    BootId,
    /// As `uname -m` has it.
    Architecture,
    /// As `uname -r` has it.
    Kernel,
    /// How many CPUs it may use, rounded up.
    Cpus,
    /// How many bytes of memory it may use.
    Memory,
}

impl Fact {
    pub const WORDS: [(&str, Fact); 7] = [
        ("service", Fact::Service),
        ("hostName", Fact::HostName),
        ("bootId", Fact::BootId),
        ("architecture", Fact::Architecture),
        ("kernel", Fact::Kernel),
        ("cpus", Fact::Cpus),
        ("memory", Fact::Memory),
    ];
}
