//! Health checks: the list `health`.

use std::path::PathBuf;
use std::time::Duration;

use super::at::At;
use super::codec::{Codec, part};
use super::command::command;
use super::mapping::{Mapping, keys};
use super::probes::{csi, grpc, http, tcp};
use super::seen::Seen;
use super::values::{boolean, duration, duration_from, name, number, scalar};
use crate::decode::{Decoder, quoted};
use crate::json::Json;
use crate::schema::{Kind, form};
use kelson_spec::features::Feature;
use kelson_spec::service::{
    Asks, Attachment, Check, NetworkProbe, Probe, ProbeTls, Share, Volume, VolumeProbe,
};

/// The shortest time between two runs of a check, and the shortest timeout.
const SHORTEST: Duration = Duration::from_millis(10);
/// The largest count of results in a row.
const MOST: u32 = 1_000;
/// How many checks a service or a group may have: PID 1 keeps the last results of each.
pub const MOST_CHECKS: usize = 256;
/// The most bytes that the certificates of all checks of one of them may take: PID 1 keeps those too.
pub const MOST_CERTIFICATES: usize = 256 << 10;

/// The subject whose health a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOf {
    Service,
    Registration,
    Group,
}

pub fn checks(of: CheckOf) -> Codec<Vec<Check>> {
    let whose = match of {
        CheckOf::Service | CheckOf::Registration => "service",
        CheckOf::Group => "group",
    };
    let one = Mapping::codec(move || match of {
        CheckOf::Service => of_service(),
        CheckOf::Registration => of_registration(),
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
    interval: &'static str,
    timeout: &'static str,
    restart_after: &'static str,
    grace: &'static str,
}

const INTERVAL: &str = "the time from the end of one attempt to the start of the next. Kelson adds a random part of \
    up to a tenth, so that many checks do not run at the same moment. During `grace`, until the check first passes, it \
    is at most 1 s";

impl About {
    /// Of the checks of a service.
    const SERVICE: About = About {
        name: "unique within the service",
        page: [
            "[a GET](#what-a-check-asks)",
            "[a connection](#what-a-check-asks)",
            "[`grpc.health.v1.Health/Check`](#what-a-check-asks)",
            "the path of a Unix socket of the host: [`csi.v1.Identity/Probe`](#what-a-check-asks)",
        ],
        initial_delay: "the time from ready to the first attempt; if there are checks with `startup`, \
             from the moment when these have passed",
        interval: INTERVAL,
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
}

fn of_service() -> Mapping<Check> {
    let about = About::SERVICE;
    let mapping = keys! {
        restarts(times(own("check", &about), &about), &about);
        key "startup" startup = boolean(),
            "`true`: the check is part of the start only. The other checks begin once all checks with \
             `startup` have passed, and those do not run again in that run. With `restartAfter`, it \
             restarts a service that does not come up";
    };
    of_one_kind(mapping)
}

/// A check of a registration restarts nothing and is no part of the start.
fn of_registration() -> Mapping<Check> {
    let interval = "the time from the end of one attempt to the start of the next. Kelson adds a random part of up to a \
                    tenth. In the first 10 s, until the check first passes, it is at most 1 s";
    let about = About { name: "unique among all checks of the service", interval, ..About::SERVICE };
    let why = "a check of a registration decides about the registration alone; write this check into health to restart \
               the service or to gate its start";
    let mapping = times(own("registration-check", &about), &about);
    of_one_kind(mapping.elsewhere(vec!["restartAfter", "grace", "startup"], why))
}

/// The name, and what is asked of a service.
fn own(mapping: &'static str, about: &About) -> Mapping<Check> {
    let exec_at = At::new(
        |check: &Check| if let Probe::Exec { command } = &check.probe { Some(command.clone()) } else { None },
        |check, command| check.probe = Probe::Exec { command },
    );
    let volume_at = At::new(
        |check: &Check| asked_volume(check).map(|probe| probe.volume.clone()),
        |check, volume| {
            let free_at_least = Share::Percent(0);
            check.probe = Probe::Volume(VolumeProbe { volume, free_at_least });
        },
    );
    let free_at = At::new(
        |check: &Check| Some(asked_volume(check).map(|probe| probe.free_at_least)),
        |check: &mut Check, share| {
            if let (Probe::Volume(probe), Some(share)) = (&mut check.probe, share) {
                probe.free_at_least = share;
            }
        },
    );
    keys! {
        network(mapping, about);
        alternative "exec" (exec_at) = Mapping::codec(exec), "[a command](#what-a-check-asks)";
        alternative "volume" (volume_at) if Volumes = name(),
            "the name of one of its [volumes](#volumes): [how much of it is free](#what-a-check-asks)";
        means "freeAtLeast" (free_at) if Volumes = share().optional(), "`volume` needs it",
            "how much of `volume` has to be free: a percentage such as `5%`, which is also asked for of the \
             inodes, or a size such as `1Gi`";
    }
}

fn of_one_kind(mapping: Mapping<Check>) -> Mapping<Check> {
    mapping.one_of(&["http", "tcp", "grpc", "csi", "exec", "volume"]).check(|d, seen, check| {
        let (key, text) = match asked_volume(check) {
            Some(_) if !seen.has("freeAtLeast") => {
                ("volume", "freeAtLeast is missing beside it; write such as freeAtLeast: 5%")
            }
            None if seen.has("freeAtLeast") && !seen.has("volume") => {
                ("freeAtLeast", "this is for a check of a volume; write volume: NAME too, or leave it out")
            }
            Some(_) | None => return,
        };
        seen.wrong_key(d, key, text);
    })
}

fn asked_volume(check: &Check) -> Option<&VolumeProbe> {
    match &check.probe {
        Probe::Volume(probe) => Some(probe),
        Probe::Exec { .. } | Probe::Network(_) | Probe::Csi { .. } => None,
    }
}

/// Each volume that a check asks about has to be one of these, and a file system.
pub fn check_volumes(
    d: &mut Decoder<'_>,
    seen: &Seen<'_, '_>,
    (key, checks): (&'static str, &[Check]),
    volumes: &[Volume],
) {
    if seen.is_wrong("volumes") {
        return;
    }
    for check in checks {
        let Some(asked) = asked_volume(check) else { continue };
        let found = volumes.iter().find(|volume| volume.name == asked.volume);
        let is_device = |volume: &Volume| {
            volume.source.csi().is_some_and(|source| source.usage.attachment == Attachment::Block)
        };
        let why = match found {
            Some(volume) if is_device(volume) => "is a device, of which nothing is free or used",
            Some(_) => continue,
            None => "is none of the volumes of this service",
        };
        let text = format!("check {}: {} {why}", quoted(&check.name), quoted(&asked.volume));
        seen.wrong_value(d, key, text);
    }
}

fn share() -> Codec<Share> {
    scalar(
        || Kind::Either(vec![Kind::Form(form("percentage", "^([1-9][0-9]?|100)%$", "5%")), Kind::Size(1)]),
        "a percentage or a size",
        |text| {
            let share = Share::from_word(text);
            share.ok_or_else(|| format!("{} is no part of a volume; write such as 5% or 1Gi", quoted(text)))
        },
        |share| Json::Text(share.to_word()),
    )
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
        interval: INTERVAL,
        timeout: "the longest duration of an attempt; after this time it has failed (`no answer within 1 \
             s`). May be longer than `interval`",
        restart_after: "the number of failed attempts in a row after which the check asks for a restart \
             of the group. 0: never. [`restart`](#restart) decides how often. Several checks that ask at \
             the same time cause one restart",
        grace: "the time from the moment when all required members are up, in which failures do not \
             count for `restartAfter`",
    };
    let why = "a group has no process in which a command could run, no volumes and no start to gate; \
               write this check into the file of a member";
    restarts(times(network("group-check", &about), &about), &about)
        .elsewhere(vec!["exec", "volume", "freeAtLeast", "startup"], why)
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
        means "interval" (interval_at) = duration_from(SHORTEST).optional(), "`5s`; of `csi` `10s`, of `volume` `30s`",
            about.interval;
        key "timeout" timeout = duration_from(SHORTEST), about.timeout;
        key "successThreshold" success_threshold = number(1..=MOST),
            "the number of successful attempts in a row after which the check passes";
        key "failureThreshold" failure_threshold = number(1..=MOST),
            "the number of failed attempts in a row after which the check fails";
    }
    .check(|_, seen, check| {
        if !seen.has("interval") {
            check.interval = check.probe.interval();
        }
    })
}

fn restarts(mapping: Mapping<Check>, about: &About) -> Mapping<Check> {
    keys! {
        mapping;
        key "restartAfter" restart_after = number(0..=MOST), about.restart_after;
        key "grace" grace = duration(), about.grace;
    }
}

fn exec() -> Mapping<Vec<String>> {
    keys! {
        Mapping::new("exec", Vec::new);
        needed "command" (At::whole()) = command(), "command: [PROGRAM, ARGUMENT]",
            "a program and its arguments; the check passes with exit status 0";
    }
}

/// The certificates that a check carries along.
pub fn authority(check: &Check) -> Option<&str> {
    let Probe::Network(probe) = &check.probe else { return None };
    let tls: Option<&ProbeTls> = match &probe.asks {
        Asks::Tcp => None,
        Asks::Http(http) => http.tls.as_ref(),
        Asks::Grpc(grpc) => grpc.tls.as_ref(),
    };
    tls?.ca.as_deref()
}
