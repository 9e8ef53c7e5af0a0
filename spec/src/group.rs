//! The file of a group: what `/etc/kelson/groups/NAME.yaml` says; every key of it is optional.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::machine::NodeHealthSpec;
use crate::service::{Check, RestartSpec};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupSpec {
    pub name: String,
    /// All its services must be up for so long without a break. `None`: as for the host.
    pub minimum: Option<Duration>,
    /// After so long without that it has failed. `None`: as for the host.
    pub deadline: Option<Duration>,
    /// When it is restarted as a whole; `None`: by the rules of the member that asks for it. Policy and scope say nothing.
    pub restart: Option<RestartSpec>,
    /// Checks over the network of the host that must all pass for it to be healthy.
    pub health: Vec<Check>,
}

impl GroupSpec {
    /// When it counts as healthy and when as failed, on a host with these settings.
    pub fn health(&self, host: &NodeHealthSpec) -> NodeHealthSpec {
        NodeHealthSpec::filled(self.minimum, self.deadline, host)
    }
}

impl NodeHealthSpec {
    /// Fills in values that are not written from `default`; they give way to those that are written.
    pub fn filled(minimum: Option<Duration>, deadline: Option<Duration>, default: &NodeHealthSpec) -> Self {
        let (minimum, deadline) = match (minimum, deadline) {
            (Some(minimum), Some(deadline)) => (minimum, deadline),
            (Some(minimum), None) => (minimum, default.deadline.max(minimum.saturating_mul(2))),
            (None, Some(deadline)) => (default.minimum.min(deadline), deadline),
            (None, None) => (default.minimum, default.deadline),
        };
        NodeHealthSpec { minimum, deadline }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_is_that_of_the_host_and_gives_way() {
        let secs = Duration::from_secs;
        let host = NodeHealthSpec { minimum: secs(20), deadline: secs(60) };
        let health = |minimum: Option<u64>, deadline: Option<u64>| {
            let group = GroupSpec {
                minimum: minimum.map(secs),
                deadline: deadline.map(secs),
                ..GroupSpec::default()
            };
            let found = group.health(&host);
            (found.minimum.as_secs(), found.deadline.as_secs())
        };
        assert_eq!(health(None, None), (20, 60));
        assert_eq!(health(Some(1), None), (1, 60));
        assert_eq!(health(Some(100), None), (100, 200));
        assert_eq!(health(None, Some(30)), (20, 30));
        assert_eq!(health(None, Some(5)), (5, 5));
        assert_eq!(health(Some(3), Some(4)), (3, 4));
    }
}
