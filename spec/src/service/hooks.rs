//! Commands around and beside the runs of a service.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Commands around each run of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hooks {
    /// Before the main process, one after the other; a failure is a failed start.
    pub pre: Vec<Hook>,
    /// Beside it, once it is ready; a failure is reported and changes nothing.
    pub post_start: Vec<Hook>,
    /// Before it is stopped: before `stop.delay` and the signal.
    pub pre_stop: Vec<Hook>,
    /// After it has ended, however it did, and after a failed `pre`.
    pub post: Vec<Hook>,
    /// Of a one-shot that has finished: when it is stopped.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub undo: Vec<Hook>,
}

impl Hooks {
    pub fn is_empty(&self) -> bool {
        self.pre.is_empty()
            && self.post_start.is_empty()
            && self.pre_stop.is_empty()
            && self.post.is_empty()
            && self.undo.is_empty()
    }
}

/// One command around a run: in the service's environment and within its cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Program and arguments, never empty.
    pub command: Vec<String>,
    /// Then it is killed and counts as failed.
    #[serde(default = "Hook::timeout")]
    pub timeout: Duration,
    /// As root and without the service's `security`. Otherwise as the service's user.
    #[serde(default)]
    pub as_root: bool,
    /// A failure of it is reported and changes nothing.
    #[serde(default)]
    pub may_fail: bool,
    /// An exit status from 1 to 254 means that the service is not to start.
    #[cfg_attr(feature = "units", serde(default))]
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub condition: bool,
}

impl Hook {
    /// `timeout` where the file has none.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    /// As the service's user.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>, timeout: Duration) -> Hook {
        Hook {
            command: command.into_iter().map(Into::into).collect(),
            timeout,
            as_root: false,
            may_fail: false,
            condition: false,
        }
    }

    fn timeout() -> Duration {
        Self::TIMEOUT
    }
}

/// What a run gets when an operator reloads the service: by default nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reload {
    /// Beside the main process, one after the other, up to the first that fails.
    pub hooks: Vec<Hook>,
    /// To the main process, once all hooks have succeeded.
    pub signal: Option<i32>,
    /// A reload of one of these services is one of this service too.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub with: Vec<String>,
}

/// What a run gets after the machine was resumed from a snapshot: by default nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resumed {
    /// To the main process, before the hooks.
    pub signal: Option<i32>,
    /// Beside the main process, one after the other.
    pub hooks: Vec<Hook>,
    /// A restart instead of both.
    pub restart: bool,
}
