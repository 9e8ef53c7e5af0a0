//! `restart`: of a service, and of a group.

use super::codec::Codec;
use super::confinement::signal_form;
use super::mapping::{Mapping, keys};
use super::values::{SHORTEST, choice, duration, duration_from, number, some_text};
use crate::decode::quoted;
use crate::schema::Kind;
use kelson_spec::kernel;
use kelson_spec::service::{Exhausted, ExitMatch, RestartPolicy, RestartScope, RestartSpec, ServiceKind};

/// The most attempts a restart budget may have.
const MOST_ATTEMPTS: u32 = 1_000_000;

/// Of a service. `no_group`: why `scope: group` cannot be, where it cannot.
pub fn restart(kind: ServiceKind, no_group: Option<&'static str>) -> Mapping<RestartSpec> {
    let all = [
        RestartPolicy::Once,
        RestartPolicy::UntilSuccess,
        RestartPolicy::Forever,
        RestartPolicy::OnSuccess,
        RestartPolicy::OnAbnormal,
        RestartPolicy::OnAbort,
        RestartPolicy::OnWatchdog,
    ];
    // The words of systemd, docker and Kubernetes.
    let external = [
        ("no", RestartPolicy::Once),
        ("on-failure", RestartPolicy::UntilSuccess),
        ("always", RestartPolicy::Forever),
        ("on-success", RestartPolicy::OnSuccess),
        ("on-abnormal", RestartPolicy::OnAbnormal),
        ("on-abort", RestartPolicy::OnAbort),
        ("on-watchdog", RestartPolicy::OnWatchdog),
    ];
    let policies = all.into_iter().map(|policy| (policy.name(), policy)).chain(external);
    let policy = choice(policies).but(move |policy| {
        let repeats = matches!(policy, RestartPolicy::Forever | RestartPolicy::OnSuccess);
        (kind == ServiceKind::Oneshot && repeats)
            .then_some("a oneshot cannot run forever; write once or untilSuccess")
    });
    let scope = choice([("service", RestartScope::Service), ("group", RestartScope::Group)])
        .but(move |scope| no_group.filter(|_| *scope == RestartScope::Group));
    let mapping = keys! {
        Mapping::new("restart", move || RestartSpec::for_kind(kind));
        means "policy" policy = policy, "`forever`; oneshot: `once`",
            "`once` or `no`: never restarted. `untilSuccess` or `on-failure`: restarted until it exits \
             with status 0. `forever` or `always`: restarted after each end (not for a oneshot). \
             `onSuccess`, `onAbnormal`, `onAbort`, `onWatchdog`: after [some ends](#restart)";
    };
    keys! {
        times(
            mapping,
            "the pause before the first restart. It doubles with each further restart, up to `maxDelay`, \
             plus a random part of up to a quarter. It starts over after a run that is longer than both \
             `maxDelay` and 10 s",
            "failures allowed within `interval`; the next one exhausts the budget. 0: no limit. Kelson \
             treats more than 10,000 as 10,000",
            "`fail`: the service ends as `failed`. `delay`: it waits for the end of the interval and \
             then has a new budget",
        );
        key "preventOn" prevent_on if Units = ends(),
            "ends after which it is not restarted, whatever `policy` says: `[3, SIGTERM]`";
        key "forceOn" force_on if Units = ends(),
            "ends after which it is restarted, whatever `policy` says; `preventOn` comes first";
        key "scope" scope = scope,
            "what Kelson restarts when a check asks for it (`restartAfter`), or when the budget of \
             attempts is exhausted. `group`: all services of its [group](#group-lifecycle), in order";
    }
}

/// Exit statuses and signals.
pub fn ends() -> Codec<Vec<ExitMatch>> {
    let kind = || Kind::Either(vec![Kind::Number(0..=255), signal_form()]);
    let one = some_text().of_kind(kind).parsed(
        |text| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text
                .parse()
                .map(ExitMatch::Status)
                .map_err(|_| format!("{} is out of range; write an exit status from 0 to 255", quoted(text))),
            false => {
                let signal = kernel::parse_signal(text).map_err(|error| error.to_string())?;
                u8::try_from(signal).map(ExitMatch::Signal).map_err(|error| error.to_string())
            }
        },
        |end| match *end {
            ExitMatch::Status(status) => status.to_string(),
            ExitMatch::Signal(signal) => kernel::signal_name(signal.into()),
        },
    );
    one.list("a list of exit statuses and signals such as [3, SIGTERM]")
}

/// Of a group.
pub fn group_restart() -> Mapping<RestartSpec> {
    let initial =
        || RestartSpec { scope: RestartScope::Group, ..RestartSpec::for_kind(ServiceKind::Service) };
    times(
        Mapping::new("group-restart", initial),
        "the pause between the stop and the start of the group. It doubles with each further restart, up \
         to `maxDelay`, plus a random part of up to a quarter. It starts over after all members have \
         been up for longer than `maxDelay`, and for at least 10 s",
        "restarts of the group within `interval`; the next one exhausts the budget. 0: no limit. Kelson \
         treats more than 10,000 as 10,000",
        "`fail`: the group is not restarted, and the member that asked for it ends as `failed`. `delay`: \
         the group waits for the end of the interval and then has a new budget",
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
        key "maxDelay" max_delay = duration(), "the longest pause; not less than `delay`";
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
