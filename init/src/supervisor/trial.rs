//! A configuration on trial, and the paper about one that is being applied.

use std::time::Duration;

use kelson_spec::applied::Generation;
use serde::{Deserialize, Serialize};

use crate::boot::history::since_kernel;

/// A configuration that is in force until its time is over, unless it is confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Trial {
    pub(super) generation: Generation,
    /// The host returns to it.
    pub(super) before: Generation,
    pub(super) author: String,
    /// Since the kernel's start.
    pub(super) deadline: Duration,
}

impl Trial {
    /// The time that is left.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_sub(since_kernel())
    }
}

/// What the next incarnation of PID 1 has to complete.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Paper {
    /// The configuration in force may not have been taken up.
    pub(super) under_way: bool,
    pub(super) trial: Option<Trial>,
}
