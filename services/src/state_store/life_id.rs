//! Which life of the host a state belongs to.

use std::io;

use serde::{Deserialize, Serialize};

/// Boot and PID 1: `execve` keeps both, a reboot changes the one and a new PID namespace the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifeId {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// Field 22 of `/proc/1/stat`, in clock ticks since boot.
    pub start_time: u64,
}

impl LifeId {
    /// The life this process is part of.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn current() -> io::Result<LifeId> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let start_time = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19))
            .and_then(|field| field.parse().ok())
            .ok_or_else(|| io::Error::other("/proc/self/stat has no start time"))?;
        Ok(LifeId { boot, start_time })
    }
}
