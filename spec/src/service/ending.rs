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
    pub mode: StopMode,
    /// SIGHUP follows the signal.
    pub hang_up: bool,
    /// After the timeout, a while before SIGKILL.
    pub final_signal: Option<i32>,
}

/// Which processes get the stop signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum StopMode {
    /// The main one.
    #[default]
    Main,
    /// All of the cgroup.
    Cgroup,
    /// The main one, and what it leaves behind is not ended.
    Process,
}

impl Default for StopSpec {
    fn default() -> Self {
        StopSpec {
            signal: libc::SIGTERM,
            timeout: Duration::from_secs(10),
            delay: Duration::ZERO,
            mode: StopMode::Main,
            hang_up: false,
            final_signal: None,
        }
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
