//! Which life of the host a state belongs to.

use std::io;

use kelson_sys::process;
use serde::{Deserialize, Serialize};

/// Boot and PID 1: `execve` keeps both, a reboot changes the one and a new PID namespace the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incarnation {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// Field 22 of `/proc/1/stat`, in clock ticks since boot.
    pub start_time: u64,
}

impl Incarnation {
    /// The life this process is part of.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn current() -> io::Result<Incarnation> {
        let start_time =
            process::started("self")?.ok_or_else(|| io::Error::other("/proc/self/stat has no start time"))?;
        Ok(Incarnation { boot: process::boot_id()?, start_time })
    }
}
