//! The output of a service: its log, and the copy on PID 1's own output.

use serde::{Deserialize, Serialize};

/// The log of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogSpec {
    /// Bytes of one file before it is rotated.
    pub max_size: u64,
    /// Rotated files kept, the current one included.
    pub max_files: u32,
    /// Lines kept in a second; absent: all.
    pub rate_limit: Option<u32>,
    /// Also to the console.
    pub console: bool,
    /// Also to PID 1's own output. `None`: as the machine file says.
    pub stdout: Option<Stdout>,
}

impl Default for LogSpec {
    fn default() -> Self {
        LogSpec { max_size: 1 << 20, max_files: 3, rate_limit: None, console: false, stdout: None }
    }
}

/// What of the output of a service goes to PID 1's own standard output and error, where container engines collect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Stdout {
    #[default]
    Nothing,
    /// logd keeps each line, and copies it there.
    Copy,
    /// The same with the name of the service before each line.
    Named,
    /// The service itself writes there. Nothing is kept.
    Only,
}
