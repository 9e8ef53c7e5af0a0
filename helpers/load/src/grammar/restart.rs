//! `restart`: of a service, and of a group.

use super::mapping::{Mapping, keys};
use super::values::{SHORTEST, choice, duration, duration_from, number};
use kelson_spec::service::{Exhausted, RestartPolicy, RestartScope, RestartSpec, ServiceKind};

/// The most attempts a restart budget may have.
const MOST_ATTEMPTS: u32 = 1_000_000;

/// Of a service. `no_group`: why `scope: group` cannot be, where it cannot.
pub fn restart(kind: ServiceKind, no_group: Option<&'static str>) -> Mapping<RestartSpec> {
    let policies = [
        ("once", RestartPolicy::Once),
        ("untilSuccess", RestartPolicy::UntilSuccess),
        ("forever", RestartPolicy::Forever),
        // The words of systemd, docker and Kubernetes.
        ("no", RestartPolicy::Once),
        ("on-failure", RestartPolicy::UntilSuccess),
        ("always", RestartPolicy::Forever),
    ];
    let policy = choice(policies).but(move |policy| {
        (kind == ServiceKind::Oneshot && *policy == RestartPolicy::Forever)
            .then_some("a oneshot cannot run forever; write once or untilSuccess")
    });
    let scope = choice([("service", RestartScope::Service), ("group", RestartScope::Group)])
        .but(move |scope| no_group.filter(|_| *scope == RestartScope::Group));
    let mapping = keys! {
        Mapping::new("restart", move || RestartSpec::for_kind(kind));
        means "policy" policy = policy, "`forever`; oneshot: `once`",
            "`once` or `no`: never again. `untilSuccess` or `on-failure`: again until status 0. `forever` or \
             `always`: again after each end (not for a oneshot)";
    };
    keys! {
        times(
            mapping,
            "before the first restart. It doubles with each further one, up to `maxDelay`, and a random part of up to a quarter \
             is added. It starts over after a run that is longer than `maxDelay` and than 10 s",
            "failures allowed within `interval`; the next one exhausts the budget. 0: no limit. More than 10,000 count as 10,000",
            "`fail`: the service ends as `failed`. `delay`: it waits for the end of the interval and has a fresh budget",
        );
        key "scope" scope = scope,
            "what is restarted when a check asks for it (`restartAfter`), and once the budget of attempts is \
             used up. `group`: all services of its [group](#group-lifecycle), in order";
    }
}

/// Of a group.
pub fn group_restart() -> Mapping<RestartSpec> {
    let initial =
        || RestartSpec { scope: RestartScope::Group, ..RestartSpec::for_kind(ServiceKind::Service) };
    times(
        Mapping::new("group-restart", initial),
        "how long the group rests between its stop and its start. It doubles with each further restart, up to `maxDelay`, and \
         has up to a quarter more by chance. After all members were up for longer than `maxDelay`, at least 10 s, it begins \
         at `delay` again",
        "restarts of the group within `interval`; the next one exhausts the budget. 0: no limit. More than 10,000 count as \
         10,000",
        "`fail`: the group is not restarted, and the member that asked for it ends as `failed`. `delay`: the group rests \
         until the end of the interval and has a fresh budget",
    )
    .elsewhere(
        vec!["policy", "scope"],
        "a group is restarted when a member with restart: {scope: group} asks for it, whose own file has this key",
    )
}

/// The pauses and the budget of restarts.
fn times(
    mapping: Mapping<RestartSpec>,
    delay: &'static str,
    attempts: &'static str,
    exhausted: &'static str,
) -> Mapping<RestartSpec> {
    let ends = choice([("fail", Exhausted::Fail), ("delay", Exhausted::Delay)]);
    keys! {
        mapping;
        key "delay" delay = duration(), delay;
        key "maxDelay" max_delay = duration(), "not less than `delay`";
        key "attempts" attempts = number(0..=MOST_ATTEMPTS), attempts;
        key "interval" interval = duration_from(SHORTEST), "the time in which `attempts` are counted";
        key "exhausted" exhausted = ends, exhausted;
    }
    .check(|d, seen, restart| {
        // The default of the one gives way to what is written for the other.
        match (seen.is_right("delay"), seen.is_right("maxDelay")) {
            (true, true) if restart.max_delay < restart.delay => {
                seen.wrong_value(d, "maxDelay", "maxDelay is less than delay");
            }
            (_, true) => restart.delay = restart.delay.min(restart.max_delay),
            (_, false) => restart.max_delay = restart.max_delay.max(restart.delay),
        }
    })
}
