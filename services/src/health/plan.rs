//! The plan of a check: its question, its times, and the meaning of its results.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::BoxFuture;
use kelson_spec::service::Check;
use tokio::time::Instant;

use crate::prober::Verdict;

/// The question of a check.
pub trait Probe: Send + Sync {
    /// The word for it: `exec`, `http`, `grpc`.
    fn kind(&self) -> &'static str;

    /// Asks once. Dropping the future ends whatever it began. It is dropped at `deadline` where it has not answered; one
    /// that has something to tell by then answers [`Verdict::Silent`] at that instant itself.
    fn ask(&self, deadline: Instant) -> BoxFuture<'static, Answer>;
}

/// The answer of a probe.
pub struct Answer {
    pub verdict: Verdict,
    /// In the end of it stands why it fails.
    pub output: String,
    /// Ends when what was begun has; until then the check is not run again.
    pub ending: Option<BoxFuture<'static, ()>>,
}

impl Answer {
    pub fn passes(output: impl Into<String>) -> Answer {
        Answer { verdict: Verdict::Passes, output: output.into(), ending: None }
    }

    pub fn fails(why: impl Into<String>) -> Answer {
        Answer { verdict: Verdict::Fails, output: why.into(), ending: None }
    }
}

/// How often a check asks, and what its results mean. `docs/service-file.md` tells of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub name: Arc<str>,
    pub initial_delay: Duration,
    pub interval: Duration,
    pub timeout: Duration,
    pub success_threshold: u32,
    pub failure_threshold: u32,
    /// Failures in a row that restart the service; 0: never.
    pub restart_after: u32,
    pub grace: Duration,
    /// It only gates the start: the others begin once it has passed, and it is not asked again in that run.
    pub startup: bool,
    /// It decides about the registration of the service, and not about its health.
    pub registration: bool,
}

impl From<&Check> for Plan {
    fn from(check: &Check) -> Plan {
        Plan {
            name: Arc::from(check.name.as_str()),
            initial_delay: check.initial_delay,
            interval: check.interval,
            timeout: check.timeout,
            success_threshold: check.success_threshold,
            failure_threshold: check.failure_threshold,
            restart_after: check.restart_after,
            grace: check.grace,
            startup: check.startup,
            registration: false,
        }
    }
}

/// The check that a built-in service brings with it, besides those that the machine file gives it.
#[derive(Clone)]
pub struct OwnCheck {
    pub plan: Plan,
    pub probe: Arc<dyn Probe>,
}
