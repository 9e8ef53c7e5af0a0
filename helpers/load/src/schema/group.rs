//! The keys of the file of a group.

use std::time::Duration;

use super::checks::group_checks;
use super::kinds::{choice, duration, duration_from, name};
use super::{Kind, Mapping, with, without};

/// The whole file.
pub fn group() -> Mapping {
    let keys = [
        without(
            "name",
            name(),
            "the file's name",
            "the name of the group, as the file is called without `.yaml`",
        ),
        without(
            "minimum",
            duration(),
            "`health.minimum` of the [machine file](machine-file.md#health)",
            "how long all its services must be up without a break. `0s`: at once. Where `deadline` is shorter than this default, \
             so is `minimum`",
        ),
        without(
            "deadline",
            duration_from(Duration::from_secs(1)),
            "`health.deadline` of the [machine file](machine-file.md#health)",
            "after so long without that, the group has failed. Not less than `minimum`. Where `minimum` alone is written, at \
             least twice that",
        ),
        without(
            "restart",
            Kind::Mapping(restart),
            "that of the member that asks",
            "[restarts of the whole group](#restart)",
        ),
        without(
            "health",
            group_checks(),
            "none",
            "[checks](#checks) that must all pass for the group to be healthy",
        ),
    ];
    Mapping::new("group", keys)
}

fn restart() -> Mapping {
    let keys = [
        with(
            "delay",
            duration(),
            "1s",
            "how long the group rests between its stop and its start. It doubles with each further restart, up to `maxDelay`, and \
             has up to a quarter more by chance. After all members were up for longer than `maxDelay`, at least 10 s, it begins \
             at `delay` again",
        ),
        with("maxDelay", duration(), "30s", "not less than `delay`"),
        with(
            "attempts",
            Kind::Number(0..=1_000_000),
            "0",
            "restarts of the group within `interval`; the next one exhausts the budget. 0: no limit. More than 10,000 count as \
             10,000",
        ),
        with(
            "interval",
            duration_from(Duration::from_millis(1)),
            "5m",
            "the time in which `attempts` are counted",
        ),
        with(
            "exhausted",
            choice(&["fail", "delay"]),
            "fail",
            "`fail`: the group is not restarted, and the member that asked for it ends as `failed`. `delay`: the group rests \
             until the end of the interval and has a fresh budget",
        ),
    ];
    Mapping::new("group-restart", keys)
}
