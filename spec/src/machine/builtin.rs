//! The changes of a machine file to a built-in service.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::service::{
    Check, Hooks, LogSpec, Requirement, ResourceLimit, Resources, RestartSpec, ServiceSpec, StopSpec,
};

/// The changes of a machine file to a built-in service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BuiltinSpec {
    pub name: String,
    pub enabled: Option<bool>,
    /// Environment files first, then `environment`, over what the service has of its own.
    pub environment: Vec<(String, String)>,
    /// Besides what it waits for anyway.
    pub depends: Vec<Requirement>,
    pub restart: Option<RestartSpec>,
    pub required: Option<bool>,
    pub start_timeout: Option<Duration>,
    /// Besides the checks of its own.
    pub health: Vec<Check>,
    /// Besides the hooks of its own.
    pub hooks: Hooks,
    pub stop: Option<StopSpec>,
    pub resources: Option<Resources>,
    /// Each takes the place of its own of the same kind.
    pub limits: Vec<ResourceLimit>,
    pub logs: Option<LogSpec>,
}

impl BuiltinSpec {
    /// Changes nothing.
    pub fn new(name: &str) -> Self {
        BuiltinSpec { name: name.to_owned(), ..BuiltinSpec::default() }
    }

    /// Lays these changes over a built-in service.
    pub fn apply(&self, spec: &mut ServiceSpec) {
        let named = |list: &[(String, String)], name: &str| list.iter().any(|(other, _)| other == name);
        spec.environment.retain(|(name, _)| !named(&self.environment, name));
        spec.environment.extend(self.environment.iter().cloned());
        let new = self.depends.iter().filter(|requirement| !spec.depends.contains(requirement));
        let new: Vec<Requirement> = new.cloned().collect();
        spec.depends.extend(new);
        replace(&mut spec.restart, self.restart.as_ref());
        replace(&mut spec.required, self.required.as_ref());
        replace(&mut spec.start_timeout, self.start_timeout.as_ref());
        spec.health.extend(self.health.iter().cloned());
        spec.hooks.pre.extend_from_slice(&self.hooks.pre);
        spec.hooks.post_start.extend_from_slice(&self.hooks.post_start);
        spec.hooks.pre_stop.extend_from_slice(&self.hooks.pre_stop);
        spec.hooks.post.extend_from_slice(&self.hooks.post);
        replace(&mut spec.stop, self.stop.as_ref());
        replace(&mut spec.resources, self.resources.as_ref());
        let is_set = |resource: u32| self.limits.iter().any(|limit| limit.resource == resource);
        spec.limits.retain(|limit| !is_set(limit.resource));
        spec.limits.extend(&self.limits);
        replace(&mut spec.logs, self.logs.as_ref());
    }
}

fn replace<T: Clone>(value: &mut T, by: Option<&T>) {
    if let Some(by) = by {
        *value = by.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Hook;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn hook(program: &str) -> Hook {
        Hook::new([program], Hook::TIMEOUT)
    }

    #[test]
    fn what_is_not_said_stays() {
        let mut spec = ServiceSpec::process("containerd", ["containerd"]);
        spec.environment = vec![pair("A", "1")];
        spec.limits = vec![ResourceLimit { resource: 7, soft: 1, hard: 2 }];
        let before = spec.clone();
        BuiltinSpec::new("containerd").apply(&mut spec);
        assert_eq!(spec, before);
    }

    #[test]
    fn what_is_said_takes_its_place() {
        let mut spec = ServiceSpec::process("containerd", ["containerd"]);
        spec.environment = vec![pair("A", "1"), pair("B", "2")];
        spec.depends = vec![Requirement::TimeSynced];
        spec.hooks = Hooks { pre: vec![hook("/bin/own")], ..Hooks::default() };
        spec.limits = vec![
            ResourceLimit { resource: 7, soft: 1, hard: 2 },
            ResourceLimit { resource: 4, soft: 0, hard: 0 },
        ];
        let file = ResourceLimit { resource: 7, soft: 9, hard: 9 };
        let changes = BuiltinSpec {
            environment: vec![pair("A", "3"), pair("C", "4")],
            depends: vec![Requirement::Path("/dev/vda".into()), Requirement::TimeSynced],
            required: Some(false),
            start_timeout: Some(Duration::from_secs(5)),
            hooks: Hooks { pre: vec![hook("/bin/prepare")], ..Hooks::default() },
            stop: Some(StopSpec { delay: Duration::from_secs(1), ..StopSpec::default() }),
            resources: Some(Resources { pids_max: Some(7), ..Resources::default() }),
            limits: vec![file],
            logs: Some(LogSpec { max_files: 9, ..LogSpec::default() }),
            ..BuiltinSpec::new("containerd")
        };
        changes.apply(&mut spec);
        assert_eq!(spec.environment, [pair("B", "2"), pair("A", "3"), pair("C", "4")]);
        assert_eq!(spec.depends, [Requirement::TimeSynced, Requirement::Path("/dev/vda".into())]);
        assert_eq!((spec.start_timeout.as_secs(), spec.stop.delay.as_secs()), (5, 1));
        assert!(!spec.required);
        assert_eq!(spec.hooks.pre, [hook("/bin/own"), hook("/bin/prepare")]);
        assert_eq!((spec.resources.pids_max, spec.logs.max_files), (Some(7), 9));
        assert_eq!(spec.limits, [ResourceLimit { resource: 4, soft: 0, hard: 0 }, file]);
        assert_eq!(spec.restart, ServiceSpec::process("x", ["x"]).restart);
    }
}
