//! The facts about a check that PID 1 and `kelson-probe` both know; their messages are in
//! `kelson/v1/probe.proto`.

pub mod timing;

use std::time::Duration;

use kelson_proto::v1;

/// The name under which the process is started.
pub const NAME: &str = "kelson-probe";

/// How a check was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Passes,
    Fails,
    /// No answer within the timeout.
    Silent,
}

impl Verdict {
    pub fn of(result: &v1::ProbeResult) -> Verdict {
        match (result.passes, result.silent) {
            (true, _) => Verdict::Passes,
            (false, true) => Verdict::Silent,
            (false, false) => Verdict::Fails,
        }
    }
}

/// As the messages have it.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
