//! A claim, and how far it has come.

use kelson_proto::v1::VolumeStep;
use tokio::time::Instant;

use crate::usage::Use;

/// What a service needs.
#[derive(Debug)]
pub struct Claim {
    pub uses: Vec<Use>,
    pub state: State,
    /// PID 1 has sent it since it last began to send all claims.
    pub sent: bool,
}

#[derive(Debug)]
pub enum State {
    /// The uses before `next` are published.
    Claiming {
        next: usize,
        until: Instant,
    },
    Published,
    Undoing {
        until: Instant,
        answer: Answer,
        failures: Vec<VolumeStep>,
    },
}

/// Which message PID 1 waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Claimed,
    Released,
    Nothing,
}
