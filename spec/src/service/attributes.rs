//! What a process of a service has besides its user and its limits, and hands on to its children.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attributes {
    pub umask: u32,
    /// -20 to 19. `None`: that of PID 1.
    pub nice: Option<i16>,
    /// -1000 to 1000. `None`: that of every child of PID 1.
    pub oom_score: Option<i16>,
    /// Bit n of word m: it may run on CPU 64 m + n. Empty: on those on which PID 1 may run.
    pub cpus: Vec<u64>,
}

impl Attributes {
    /// `umask` where the file has none.
    pub const UMASK: u32 = 0o022;
}

impl Default for Attributes {
    fn default() -> Self {
        Attributes { umask: Self::UMASK, nice: None, oom_score: None, cpus: Vec::new() }
    }
}
