//! Health checks: the list `health`.

use std::path::PathBuf;
use std::time::Duration;

use super::at::At;
use super::codec::{Codec, part};
use super::command::command;
use super::mapping::{Mapping, keys};
use super::probes::{csi, grpc, http, tcp};
use super::values::{boolean, duration, duration_from, name, number};
use kelson_spec::features::Feature;
use kelson_spec::service::{Asks, Check, NetworkProbe, Probe, ProbeTls};

/// The shortest time between two runs of a check, and the shortest timeout.
const SHORTEST: Duration = Duration::from_millis(10);
/// The largest count of results in a row.
const MOST: u32 = 1_000;
/// How many checks a service or a group may have: PID 1 keeps the last results of each.
const MOST_CHECKS: usize = 256;
/// The most bytes that the certificates of all checks of one of them may take: PID 1 keeps those too.
const MOST_CERTIFICATES: usize = 256 << 10;

/// The subject whose health a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOf {
    Service,
    Group,
}

pub fn checks(of: CheckOf) -> Codec<Vec<Check>> {
    let whose = match of {
        CheckOf::Service => "service",
        CheckOf::Group => "group",
    };
    let one = Mapping::codec(move || match of {
        CheckOf::Service => of_service(),
        CheckOf::Group => of_group(),
    });
    one.clone().list_of(0..=MOST_CHECKS, "").read_by(move |d, node| {
        d.at_most(node, MOST_CHECKS, |count| {
            format!("these are {count} checks; a {whose} has at most {MOST_CHECKS}")
        })?;
        let mut names: Vec<String> = Vec::new();
        let mut certificates = 0_usize;
        d.list(node, "a list of checks", |d, node| {
            let check = one.decode(d, node)?;
            if names.contains(&check.name) {
                let text = format!("two checks are named {}; give each a name of its own", check.name);
                d.at_key("name", |d| d.wrong(node.at, text));
            }
            names.push(check.name.clone());
            let before = certificates;
            certificates = certificates.saturating_add(authority(&check).map_or(0, str::len));
            if before <= MOST_CERTIFICATES && certificates > MOST_CERTIFICATES {
                let most = kelson_spec::units::size_text(MOST_CERTIFICATES as u64);
                d.wrong(
                    node.at,
                    format_args!("the certificates of this {whose}'s checks are more than {most} in all"),
                );
            }
            Some(check)
        })
    })
}

/// The descriptions of the keys of a check.
struct About {
    name: &'static str,
    /// Before the anchor of the chapter on probes.
    page: [&'static str; 4],
    initial_delay: &'static str,
    timeout: &'static str,
    restart_after: &'static str,
    grace: &'static str,
}

fn of_service() -> Mapping<Check> {
    let about = About {
        name: "unique within the service",
        page: [
            "[a GET](#what-a-check-asks)",
            "[a connection](#what-a-check-asks)",
            "[`grpc.health.v1.Health/Check`](#what-a-check-asks)",
            "the path of a Unix socket of the host: [`csi.v1.Identity/Probe`](#what-a-check-asks)",
        ],
        initial_delay: "the time from ready to the first attempt; if there are checks with `startup`, \
             from the moment when these have passed",
        timeout: "the longest duration of an attempt. After this time it has failed (`no answer within 1 \
             s`), and Kelson kills a command with its process group. While a killed command has not \
             ended, Kelson does not run it again, and that is a failure too. May be longer than \
             `interval`",
        restart_after: "the number of failed attempts in a row after which the check asks for a restart \
             of the service, or of its [group](#restart). 0: never. The [restart policy](#restart) \
             counts this as a failure and decides. Several checks that ask at the same time cause one \
             restart",
        grace: "the time from ready, or from the moment when the checks with `startup` have passed, in \
             which failures do not count for `restartAfter`",
    };
    let exec_at = At::new(
        |check: &Check| if let Probe::Exec { command } = &check.probe { Some(command.clone()) } else { None },
        |check, command| check.probe = Probe::Exec { command },
    );
    keys! {
        times(keys! {
            network("check", &about);
            alternative "exec" (exec_at) = Mapping::codec(exec), "[a command](#what-a-check-asks)";
        }, &about);
        key "startup" startup = boolean(),
            "`true`: the check is part of the start only. The other checks begin once all checks with \
             `startup` have passed, and those do not run again in that run. With `restartAfter`, it \
             restarts a service that does not come up";
    }
    .one_of(&["http", "tcp", "grpc", "csi", "exec"])
}

fn of_group() -> Mapping<Check> {
    let about = About {
        name: "unique within the group",
        page: [
            "[a GET](service-file.md#what-a-check-asks)",
            "[a connection](service-file.md#what-a-check-asks)",
            "[`grpc.health.v1.Health/Check`](service-file.md#what-a-check-asks)",
            "the path of a Unix socket of the host: \
             [`csi.v1.Identity/Probe`](service-file.md#what-a-check-asks)",
        ],
        initial_delay: "the time from the moment when all required members are up to the first attempt",
        timeout: "the longest duration of an attempt; after this time it has failed (`no answer within 1 \
             s`). May be longer than `interval`",
        restart_after: "the number of failed attempts in a row after which the check asks for a restart \
             of the group. 0: never. [`restart`](#restart) decides how often. Several checks that ask at \
             the same time cause one restart",
        grace: "the time from the moment when all required members are up, in which failures do not \
             count for `restartAfter`",
    };
    let why = "a group has no process in which a command could run, and no start to gate; \
               write this check into the file of a member";
    times(network("group-check", &about), &about)
        .elsewhere(vec!["exec", "startup"], why)
        .one_of(&["http", "tcp", "grpc", "csi"])
}

/// The name, and what `kelson-probe` asks.
fn network(mapping: &'static str, about: &About) -> Mapping<Check> {
    let probe = |asks: &'static str| {
        At::new(
            move |check: &Check| match &check.probe {
                Probe::Network(probe) if probe.kind() == asks => Some(probe.clone()),
                _ => None,
            },
            |check: &mut Check, probe: NetworkProbe| check.probe = Probe::Network(probe),
        )
    };
    let csi_at = At::new(
        |check: &Check| if let Probe::Csi { socket } = &check.probe { Some(socket.clone()) } else { None },
        |check: &mut Check, socket: PathBuf| check.probe = Probe::Csi { socket },
    );
    let [a_get, a_connection, a_call, a_plugin] = about.page;
    keys! {
        Mapping::new(mapping, || Check::new("", Probe::tcp(1)));
        means "name" name = name(), "the kind", about.name;
        alternative "http" (probe("http")) = part(Feature::Probes, http), a_get;
        alternative "tcp" (probe("tcp")) = part(Feature::Probes, tcp), a_connection;
        alternative "grpc" (probe("grpc")) = part(Feature::Probes, grpc), a_call;
        alternative "csi" (csi_at) = part(Feature::Probes, csi), a_plugin;
    }
    .check(|_, seen, check| {
        if !seen.has("name") {
            check.name = check.probe.kind().to_owned();
        }
    })
}

fn times(mapping: Mapping<Check>, about: &About) -> Mapping<Check> {
    // Its default depends on the kind.
    let interval_at = At::new(
        |check: &Check| Some((check.interval != check.probe.interval()).then_some(check.interval)),
        |check: &mut Check, interval: Option<Duration>| {
            if let Some(interval) = interval {
                check.interval = interval;
            }
        },
    );
    keys! {
        mapping;
        key "initialDelay" initial_delay = duration(), about.initial_delay;
        means "interval" (interval_at) = duration_from(SHORTEST).optional(), "`5s`; of `csi` `10s`",
            "the time from the end of one attempt to the start of the next. Kelson adds a random part of \
             up to a tenth, so that many checks do not run at the same moment. During `grace`, until the \
             check first passes, it is at most 1 s";
        key "timeout" timeout = duration_from(SHORTEST), about.timeout;
        key "successThreshold" success_threshold = number(1..=MOST),
            "the number of successful attempts in a row after which the check passes";
        key "failureThreshold" failure_threshold = number(1..=MOST),
            "the number of failed attempts in a row after which the check fails";
        key "restartAfter" restart_after = number(0..=MOST), about.restart_after;
        key "grace" grace = duration(), about.grace;
    }
    .check(|_, seen, check| {
        if !seen.has("interval") {
            check.interval = check.probe.interval();
        }
    })
}

fn exec() -> Mapping<Vec<String>> {
    keys! {
        Mapping::new("exec", Vec::new);
        needed "command" (At::whole()) = command(), "command: [PROGRAM, ARGUMENT]",
            "a program and its arguments; the check passes with exit status 0";
    }
}

/// The certificates that a check carries along.
fn authority(check: &Check) -> Option<&str> {
    let Probe::Network(probe) = &check.probe else { return None };
    let tls: Option<&ProbeTls> = match &probe.asks {
        Asks::Tcp => None,
        Asks::Http(http) => http.tls.as_ref(),
        Asks::Grpc(grpc) => grpc.tls.as_ref(),
    };
    tls?.ca.as_deref()
}
