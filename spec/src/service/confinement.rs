//! As whom a service runs, how much it may use, and what it may do.

use serde::{Deserialize, Serialize};

/// A resolved user: PID 1 never reads `/etc/passwd`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// For messages and `USER`/`LOGNAME`: the name in passwd, or the number as written where passwd does not know it.
    pub name: String,
    /// `HOME`, where passwd knows it.
    pub home: Option<String>,
}

impl Credentials {
    /// The user and the group of processes that need no file.
    pub const NOBODY: u32 = 65_534;
}

/// Nobody: where it cannot be read from a record of the state who a user is, that must not be root.
impl Default for Credentials {
    fn default() -> Self {
        Credentials {
            uid: Self::NOBODY,
            gid: Self::NOBODY,
            groups: Vec::new(),
            name: "nobody".to_owned(),
            home: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Bytes.
    pub memory_max: Option<u64>,
    /// Bytes.
    pub memory_high: Option<u64>,
    /// Thousandths of one CPU.
    pub cpu_max_millis: Option<u64>,
    /// 1 to 10000.
    pub cpu_weight: Option<u64>,
    pub pids_max: Option<u64>,
}

/// One rlimit, by its number in `<sys/resource.h>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    pub resource: u32,
    /// `u64::MAX` is unlimited.
    pub soft: u64,
    pub hard: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Security {
    pub no_new_privileges: bool,
    pub read_only_root: bool,
    /// Bit n set: capability n stays in the bounding set. `None`: for a process, nothing was dropped, all that PID 1 has stays;
    /// for a container, the usual ones ([`CONTAINER_CAPABILITIES`](crate::CONTAINER_CAPABILITIES)).
    pub capabilities: Option<u64>,
    /// The capabilities that `add` names: what a user other than root holds after the start.
    pub ambient: u64,
    pub seccomp: Seccomp,
}

impl Default for Security {
    fn default() -> Self {
        Security {
            no_new_privileges: true,
            read_only_root: false,
            capabilities: None,
            ambient: 0,
            seccomp: Seccomp::default(),
        }
    }
}

/// The access of a service's processes to PID 1 and logd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ApiAccess {
    /// Nothing.
    #[default]
    None,
    Reader,
    Operator,
    Admin,
}

impl ApiAccess {
    pub const ALL: [ApiAccess; 4] =
        [ApiAccess::None, ApiAccess::Reader, ApiAccess::Operator, ApiAccess::Admin];

    /// The word for it in a service file.
    pub fn name(self) -> &'static str {
        match self {
            ApiAccess::None => "none",
            ApiAccess::Reader => "reader",
            ApiAccess::Operator => "operator",
            ApiAccess::Admin => "admin",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Seccomp {
    /// Kelson's default profile: the usual container profile.
    #[default]
    Default,
    Unconfined,
}
