//! Health checks: whether a run passes them now.
//!
//! [`Checks`] minds the checks of one run and is dropped with it: nothing that an earlier run passed or failed counts for
//! the next. What a check asks is behind [`Probe`]; how results add up to passing and failing stands in `level`, which is
//! pure. The task of the service polls [`Checks::next`] as one more source of what happens to it.
//!
//! An exec check is one future at a time: it waits until the check is due, asks, and is replaced. So no check runs twice
//! at the same time, nothing wakes up between two results, and dropping the checks ends all that they began.
//!
//! A network check is asked by `kelson-probe` ([`network`]). Its results are written where the check stands as they come,
//! and the task is woken only where something follows from one: a thousand checks a second that pass cost PID 1 next to
//! nothing. Whichever way a result came, what it means stands in one place, `check_state`.

use std::sync::Arc;
use std::time::Duration;

use crate::prober::Schedule;
pub use crate::prober::Verdict;
use kelson_runner::{BoxFuture, Executor};
use kelson_spec::service::{self, Check};
use tokio::time::Instant;

mod asking;
mod check_state;
mod engine;
mod exec;
mod history;
mod level;
pub mod network;
mod output;
mod reader;
mod totals;

pub use engine::{Asks, Checks, MissingCheck, News, Recall, ToMind};
pub use level::Level;
use network::Network;
pub use totals::{CheckFigures, CheckTotals, NamedTotals, Totals};

/// What a check asks.
pub trait Probe: Send + Sync {
    /// The word for it: `exec`, `http`, `grpc`.
    fn kind(&self) -> &'static str;

    /// Asks once. Dropping the future ends whatever it began. It is dropped at `deadline` where it has not answered; one
    /// that has something to tell by then answers [`Verdict::Silent`] at that instant itself.
    fn ask(&self, deadline: Instant) -> BoxFuture<'static, Answer>;
}

/// What a probe answers.
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
        }
    }
}

/// The check that a built-in service brings with it, besides those that the machine file gives it.
#[derive(Clone)]
pub struct OwnCheck {
    pub plan: Plan,
    pub probe: Arc<dyn Probe>,
}

/// How a check of a service file is asked. `executor` runs commands beside the run that is checked, `network` asks over
/// the network that the run has.
pub fn asks(
    check: &Check,
    executor: impl FnOnce() -> Result<Arc<dyn Executor>, String>,
    network: impl FnOnce() -> Result<Arc<dyn Network>, String>,
) -> Asks {
    let asked = match (&check.probe, Schedule::of(check)) {
        (service::Probe::Exec { command }, _) => {
            return Asks::Here(Arc::new(exec::ExecProbe::new(command.clone(), executor())));
        }
        (service::Probe::Network(_), None) => Err("it asks nothing over the network".to_owned()),
        (_, Some(schedule)) => network().map(|network| Asks::Elsewhere(network, Box::new(schedule))),
    };
    asked.unwrap_or_else(|text| Asks::Here(Arc::new(NotAsked { kind: check.probe.kind(), text })))
}

/// A check that nobody can ask, and why.
struct NotAsked {
    kind: &'static str,
    text: String,
}

impl Probe for NotAsked {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn ask(&self, _: Instant) -> BoxFuture<'static, Answer> {
        Box::pin(std::future::ready(Answer::fails(self.text.as_str())))
    }
}
