//! Whether and when a service is started again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ServiceKind;
use super::ending::ExitMatch;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestartSpec {
    pub policy: RestartPolicy,
    pub delay: Duration,
    pub max_delay: Duration,
    /// Failures allowed within `interval`; 0: no limit.
    pub attempts: u32,
    pub interval: Duration,
    pub exhausted: Exhausted,
    pub scope: RestartScope,
    /// Ends that count as success, besides status 0.
    pub success: Vec<ExitMatch>,
    /// Ends after which it is not restarted, whatever the policy says.
    pub prevent_on: Vec<ExitMatch>,
    /// Ends after which it is restarted, whatever the policy says.
    pub force_on: Vec<ExitMatch>,
}

impl RestartSpec {
    /// The defaults: a service is restarted for ever, a one-shot runs once.
    pub fn for_kind(kind: ServiceKind) -> Self {
        RestartSpec {
            policy: match kind {
                ServiceKind::Service => RestartPolicy::Forever,
                ServiceKind::Oneshot => RestartPolicy::Once,
            },
            delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
            attempts: 0,
            interval: Duration::from_secs(300),
            exhausted: Exhausted::Fail,
            scope: RestartScope::Service,
            success: Vec::new(),
            prevent_on: Vec::new(),
            force_on: Vec::new(),
        }
    }
}

impl Default for RestartSpec {
    fn default() -> Self {
        RestartSpec::for_kind(ServiceKind::default())
    }
}

/// The processes that restart when a check asks for it, and once the budget of attempts is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RestartScope {
    #[default]
    Service,
    /// All services of its group, in order.
    Group,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    Once,
    UntilSuccess,
    Forever,
    OnSuccess,
    /// After a failure other than an exit status.
    OnAbnormal,
    /// After a signal that ended it.
    OnAbort,
    OnWatchdog,
}

impl RestartPolicy {
    /// The word of the service file.
    pub fn name(self) -> &'static str {
        match self {
            RestartPolicy::Once => "once",
            RestartPolicy::UntilSuccess => "untilSuccess",
            RestartPolicy::Forever => "forever",
            RestartPolicy::OnSuccess => "onSuccess",
            RestartPolicy::OnAbnormal => "onAbnormal",
            RestartPolicy::OnAbort => "onAbort",
            RestartPolicy::OnWatchdog => "onWatchdog",
        }
    }
}

/// The action when the budget of attempts is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exhausted {
    /// The service ends as `failed`.
    Fail,
    /// It waits for the end of the window, then has a fresh budget.
    Delay,
}
