//! The service files of a case.

use std::time::Duration;

use kelson_spec::service::{
    Check, ContainerSpec, Hook as HookSpec, NetworkAspect, Readiness, Requirement, RestartPolicy,
    RestartScope, RestartSpec, ServiceEvent, ServiceSpec, Workload as WorkloadSpec,
};

use super::cases::{Case, Condition, Hook, Policy, Ready, Workload};
use super::model::ATTEMPTS;
use crate::house::*;

/// The service of the case, what it waits for, and another member of its group.
pub fn files(case: &Case, changed: bool) -> Vec<ServiceSpec> {
    let mut one = spec("one");
    if changed {
        one.environment.push(("CHANGED".into(), "yes".into()));
    }
    if case.workload == Workload::Container {
        one.workload = WorkloadSpec::Container(ContainerSpec::new("image"));
    }
    let other = |event| vec![Requirement::service("other", event)];
    one.depends = match case.condition {
        Condition::Nothing => Vec::new(),
        Condition::Up => other(ServiceEvent::Up),
        Condition::Running => other(ServiceEvent::Running),
        Condition::Finished => other(ServiceEvent::Finished),
        Condition::Down => other(ServiceEvent::Down),
        Condition::Path => vec![Requirement::Path("/proc/self".into())],
        Condition::Network => vec![Requirement::Network(vec![NetworkAspect::Hostname])],
        Condition::TimeSynced => vec![Requirement::TimeSynced],
        Condition::Mount => vec![Requirement::Mount("/proc".into())],
        Condition::Device => vec![Requirement::Device("/dev/null".into())],
        Condition::Interface => vec![Requirement::Network(vec![NetworkAspect::Interface("lo".into())])],
        Condition::Any => {
            let never = Requirement::Path("/proc/nothing-of-the-kind".into());
            vec![Requirement::Any(vec![never, Requirement::service("other", ServiceEvent::Up)])]
        }
    };
    let hook = |text: &str, of: &[Hook]| -> Vec<HookSpec> {
        let hook = HookSpec::new([text], secs(3600));
        of.contains(&case.hook).then_some(hook).into_iter().collect()
    };
    one.hooks.pre = hook("pre", &[Hook::Pre, Hook::All]);
    one.hooks.post_start = hook("postStart", &[Hook::PostStart, Hook::All]);
    one.hooks.pre_stop = hook("preStop", &[Hook::PreStop, Hook::All]);
    one.hooks.post = hook("post", &[Hook::Post, Hook::All]);
    one.start_timeout = secs(600);
    match case.ready {
        Ready::AtOnce => {}
        Ready::Notify => one.readiness = Readiness::Notify,
        Ready::Descriptor => one.readiness = Readiness::Descriptor(3),
        Ready::Check => one.health = vec![check()],
    }
    one.restart =
        RestartSpec { policy: policy(case.policy), attempts: ATTEMPTS, interval: secs(3600), ..one.restart };
    let mut files = Vec::new();
    if case.by_group {
        one.restart.scope = RestartScope::Group;
        one.group = Some("group".into());
        files.push(in_group("group", spec("mate")));
    }
    match case.condition {
        Condition::Up | Condition::Running | Condition::Any => files.push(manual(spec("other"))),
        Condition::Finished => files.push(manual(oneshot("other"))),
        Condition::Down => files.push(spec("other")),
        Condition::Nothing
        | Condition::Path
        | Condition::Network
        | Condition::TimeSynced
        | Condition::Mount
        | Condition::Device
        | Condition::Interface => {}
    }
    files.push(one);
    files
}

fn check() -> Check {
    Check { failure_threshold: 1, restart_after: 2, grace: Duration::ZERO, ..exec_check("check") }
}

fn policy(policy: Policy) -> RestartPolicy {
    match policy {
        Policy::Forever => RestartPolicy::Forever,
        Policy::UntilSuccess => RestartPolicy::UntilSuccess,
        Policy::Once => RestartPolicy::Once,
    }
}
