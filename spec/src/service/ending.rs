//! How a service is stopped, and what its end means to the host.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A way in which a process may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitMatch {
    Status(u8),
    Signal(u8),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopSpec {
    /// Signal number.
    pub signal: i32,
    pub timeout: Duration,
    /// Between "no longer up" and the signal.
    pub delay: Duration,
}

impl Default for StopSpec {
    fn default() -> Self {
        StopSpec { signal: libc::SIGTERM, timeout: Duration::from_secs(10), delay: Duration::ZERO }
    }
}

/// What the host does once a service has ended and its restart policy does not start it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnExit {
    #[default]
    Ignore,
    /// It stops all other services, and ends.
    Stop,
}
