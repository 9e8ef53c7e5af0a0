//! Health checks: whether a run passes them now.
//!
//! [`Checks`] minds the checks of one run and is dropped with it: nothing that an earlier run passed or failed counts for
//! the next. What a check asks is behind [`Probe`]; how results add up to passing and failing stands in `level`, which is
//! pure. The task of the service polls [`Checks::next`] as one more source of what happens to it.
//!
//! A check is one future at a time: it waits until the check is due, asks, and is replaced. So no check runs twice at
//! the same time, nothing wakes up between two results, and dropping the checks ends all that they began.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{BoxFuture, Executor};
use kelson_spec::service::{self, Check};
use tokio::time::Instant;

mod engine;
mod exec;
mod level;
mod output;
mod reader;
mod totals;

pub use engine::{Checks, News};
pub(crate) use exec::ExecProbe;
pub(crate) use output::last_line;
pub use totals::{CheckFigures, CheckTotals, NamedTotals, Totals};

/// What a check asks.
pub trait Probe: Send + Sync {
    /// The word for it: `exec`, `http`, `grpc`.
    fn kind(&self) -> &'static str;

    /// Asks once. Dropping the future ends whatever it began. It is dropped at `deadline` where it has not answered; one
    /// that has something to tell by then answers [`Verdict::Silent`] at that instant itself.
    fn ask(&self, deadline: Instant) -> BoxFuture<'static, Answer>;
}

/// What came of asking once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Passes,
    Fails,
    /// No answer until the deadline.
    Silent,
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
        }
    }
}

/// The check that a built-in service brings with it, besides those that the machine file gives it.
#[derive(Clone)]
pub struct OwnCheck {
    pub plan: Plan,
    pub probe: Arc<dyn Probe>,
}

/// What asks for a check of a service file. `executor` runs commands beside the run that is checked.
pub fn probe(check: &Check, executor: impl FnOnce() -> Result<Arc<dyn Executor>, String>) -> Arc<dyn Probe> {
    match &check.probe {
        service::Probe::Exec { command } => Arc::new(exec::ExecProbe::new(command.clone(), executor())),
        other => Arc::new(NotHere(other.kind())),
    }
}

/// A kind of probe that this version has nobody for. Files with one are refused; so this is for those that came past.
struct NotHere(&'static str);

impl Probe for NotHere {
    fn kind(&self) -> &'static str {
        self.0
    }

    fn ask(&self, _: Instant) -> BoxFuture<'static, Answer> {
        let text = format!("this version of Kelson runs no {} checks; use exec", self.0);
        Box::pin(std::future::ready(Answer::fails(text)))
    }
}
