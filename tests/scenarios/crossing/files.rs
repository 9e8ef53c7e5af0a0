//! The files of a case. Files in the test's folder direct the service: `go` ends its `pre` hook, `ready`
//! makes it ready, `end.N` ends its run N, with status 0 where there is `success.N`, and its check fails
//! without `well`.

use std::time::Duration;

use kelson_tests::HostBuilder;

use super::cases::{Case, Condition, Hook, Moment, Policy, Ready};
use super::model::ATTEMPTS;

/// In milliseconds, and no default: whether the machine file is still what the boot read.
pub const HEALTH_DEADLINE: f64 = 77_000.0;
const MACHINE: &str = "health: {minimum: 0s, deadline: 77s}";

const SERVE: &str = "process: {command: [$PROGRAM, hang]}\n";

/// From the end of a run to the next one: long enough for something to happen in it, where that is the case.
pub fn delay(case: &Case) -> Duration {
    if case.moment == Moment::Backoff { Duration::from_secs(3) } else { Duration::from_millis(10) }
}

/// The service of the case.
pub fn one(case: &Case, changed: bool) -> String {
    let ready = match case.ready {
        Ready::AtOnce | Ready::Check => "",
        Ready::Notify => "wait-path=$DIR/ready notify=READY=1",
        Ready::Descriptor => "wait-path=$DIR/ready newline-on=3",
    };
    let script = format!(
        "echo >>$DIR/runs; n=$(wc -l <$DIR/runs); \
         exec $PROGRAM {ready} wait-path=$DIR/end.$n end-if=$DIR/success.$n exit=1"
    );
    let mut text = format!("process: {{command: [sh, -c, '{script}']}}\nstartTimeout: 10m\n");
    match case.ready {
        Ready::AtOnce => {}
        Ready::Notify => text += "readiness: notify\n",
        Ready::Descriptor => text += "readiness: {fd: 3}\n",
        Ready::Check => {
            text += "health: [{name: check, \
                     exec: {command: [$PROGRAM, 'wait-path=$DIR/ready', 'end-if=$DIR/well', exit=1]}, \
                     initialDelay: 0s, interval: 50ms, timeout: 10m, failureThreshold: 1, restartAfter: 2, grace: 0s}]\n";
        }
    }
    let requirement = match case.condition {
        Condition::Nothing | Condition::TimeSynced => "",
        Condition::Up => "service: other",
        Condition::Running => "service: other, event: running",
        Condition::Finished => "service: other, event: finished",
        Condition::Down => "service: other, event: down",
        Condition::Path => "path: /proc/self",
        Condition::Network => "network: [hostname]",
        Condition::Mount => "mount: /proc",
        Condition::Device => "device: /dev/null",
        Condition::Interface => "network: [{interface: lo, up: true}]",
        Condition::Any => "any: [{path: /proc/nothing-of-the-kind}, {service: other}]",
    };
    if !requirement.is_empty() {
        text += &format!("depends: [{{{requirement}}}]\n");
    }
    let hooks = [
        ("pre", ", 'wait-path=$DIR/go'", Hook::Pre),
        ("postStart", "", Hook::PostStart),
        ("preStop", "", Hook::PreStop),
        ("post", "", Hook::Post),
    ];
    let hooks = hooks.into_iter().filter(|(_, _, hook)| [*hook, Hook::All].contains(&case.hook));
    let hooks = hooks.map(|(name, more, _)| {
        format!("{name}: {{command: [$PROGRAM, 'append=$DIR/calls'{more}], timeout: 1h}}")
    });
    text += &format!("hooks: {{{}}}\n", hooks.collect::<Vec<_>>().join(", "));
    let policy = match case.policy {
        Policy::Forever => "forever",
        Policy::UntilSuccess => "untilSuccess",
        Policy::Once => "once",
    };
    let (delay, scope) = (delay(case).as_millis(), if case.by_group { "scope: group, " } else { "" });
    text += &format!(
        "restart: {{{scope}policy: {policy}, attempts: {ATTEMPTS}, interval: 1h, delay: {delay}ms, maxDelay: {delay}ms}}\n"
    );
    if case.by_group {
        text += "group: group\n";
    }
    if changed {
        text += "environment: {CHANGED: 'yes'}\n";
    }
    text
}

/// The service of the case, what it waits for, and another member of its group.
pub fn of(case: &Case, builder: HostBuilder) -> HostBuilder {
    let mut builder = builder.machine(MACHINE).service("one", &one(case, false));
    if case.by_group {
        builder = builder.service("mate", &format!("{SERVE}group: group"));
    }
    match case.condition {
        Condition::Up | Condition::Running | Condition::Any => {
            builder.service("other", &format!("{SERVE}start: manual"))
        }
        Condition::Finished => {
            let once = "process: {command: [$PROGRAM, 'touch=$DIR/finished']}\ntype: oneshot\nstart: manual";
            builder.service("other", once)
        }
        Condition::Down => builder.service("other", SERVE),
        Condition::Nothing
        | Condition::Path
        | Condition::Network
        | Condition::TimeSynced
        | Condition::Mount
        | Condition::Device
        | Condition::Interface => builder,
    }
}
