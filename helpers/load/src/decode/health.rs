//! Health checks: the list `health`.

use std::time::Duration;

use super::{Decoder, Place};
use crate::tree::{Node, Value};
use kelson_spec::service::{Asks, Check, Probe, ProbeTls};

const PROBES: [&str; 4] = ["http", "tcp", "grpc", "exec"];
const KEYS: [&str; 13] = [
    "name",
    "http",
    "tcp",
    "grpc",
    "exec",
    "initialDelay",
    "interval",
    "timeout",
    "successThreshold",
    "failureThreshold",
    "restartAfter",
    "grace",
    "startup",
];
/// Those of them that need a process.
const OF_SERVICES: [&str; 2] = ["exec", "startup"];

/// The shortest time between two runs of a check, and the shortest timeout.
const SHORTEST: Duration = Duration::from_millis(10);
/// The largest count of results in a row.
const MOST: u32 = 1_000;
/// How many checks a service or a group may have: PID 1 keeps the last results of each.
const MOST_CHECKS: usize = 256;
/// What the certificates of all checks of one of them may come to, in bytes: PID 1 keeps those too.
const MOST_CERTIFICATES: usize = 256 << 10;

/// Whose health a check is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckOf {
    Service,
    Group,
}

impl CheckOf {
    fn name(self) -> &'static str {
        match self {
            CheckOf::Service => "service",
            CheckOf::Group => "group",
        }
    }
}

impl Decoder<'_> {
    pub(super) fn health(&mut self, of: CheckOf, place: &Place<'_>, node: &Node) -> Option<Vec<Check>> {
        let whose = of.name();
        if let Value::Sequence(items) = &node.value
            && let Some(first) = items.get(MOST_CHECKS)
        {
            let text = format!("these are {} checks; a {whose} has at most {MOST_CHECKS}", items.len());
            self.wrong(place, first.at, text);
            return None;
        }
        let mut names: Vec<String> = Vec::new();
        let mut certificates = 0_usize;
        self.list(place, node, "a list of checks", |d, p, n| {
            let check = d.check(of, p, n)?;
            if names.contains(&check.name) {
                let text = format!("two checks are named {}; give each a name of its own", check.name);
                d.wrong(&Place::Key(p, "name"), n.at, text);
            }
            names.push(check.name.clone());
            let before = certificates;
            certificates = certificates.saturating_add(authority(&check).map_or(0, str::len));
            if before <= MOST_CERTIFICATES && certificates > MOST_CERTIFICATES {
                let most = kelson_spec::units::size_text(MOST_CERTIFICATES as u64);
                let text = format!("the certificates of this {whose}'s checks are more than {most} in all");
                d.wrong(p, n.at, text);
            }
            Some(check)
        })
    }

    fn check(&mut self, of: CheckOf, place: &Place<'_>, node: &Node) -> Option<Check> {
        let refused: &[&str] = if of == CheckOf::Group { &OF_SERVICES } else { &[] };
        let allowed: Vec<&str> = KEYS.into_iter().filter(|key| !refused.contains(key)).collect();
        let why = "a group has no process in which a command could run, and no start to gate; \
                   write this check into the file of a member";
        let fields = self.fields_where(place, node, &allowed, refused, why)?;
        // One that is refused is not missed as well.
        let probes = PROBES.into_iter().filter(|probe| allowed.contains(probe) || fields.has(probe));
        let kind = self.one_of(&fields, &probes.collect::<Vec<_>>());
        let name = self.read(&fields, "name", |d, p, n| d.name(p, n));
        let probe = kind.and_then(|kind| self.read(&fields, kind, |d, p, n| d.probe(kind, p, n)));
        // What follows is checked also where the probe is wrong.
        let stand_in = Probe::tcp(1);
        let name = name.as_deref().or(kind).unwrap_or_default();
        let mut check = Check::new(name, probe.clone().unwrap_or(stand_in));
        self.set(&fields, "initialDelay", &mut check.initial_delay, |d, p, n| {
            d.duration(p, n, Duration::ZERO)
        });
        self.set(&fields, "interval", &mut check.interval, |d, p, n| d.duration(p, n, SHORTEST));
        self.set(&fields, "timeout", &mut check.timeout, |d, p, n| d.duration(p, n, SHORTEST));
        self.set(&fields, "successThreshold", &mut check.success_threshold, |d, p, n| {
            d.number(p, n, 1..=MOST)
        });
        self.set(&fields, "failureThreshold", &mut check.failure_threshold, |d, p, n| {
            d.number(p, n, 1..=MOST)
        });
        self.set(&fields, "restartAfter", &mut check.restart_after, |d, p, n| d.number(p, n, 0..=MOST));
        self.set(&fields, "grace", &mut check.grace, |d, p, n| d.duration(p, n, Duration::ZERO));
        self.set(&fields, "startup", &mut check.startup, |d, p, n| d.boolean(p, n));
        probe.map(|_| check)
    }

    fn probe(&mut self, kind: &str, place: &Place<'_>, node: &Node) -> Option<Probe> {
        match kind {
            "http" => self.http(place, node).map(Probe::Network),
            "tcp" => self.tcp(place, node).map(Probe::Network),
            "grpc" => self.grpc(place, node).map(Probe::Network),
            _ => {
                let fields = self.fields(place, node, &["command"])?;
                let example = "command: [PROGRAM, ARGUMENT]";
                let command = self.require(&fields, "command", example, |d, p, n| d.command(p, n))?;
                Some(Probe::Exec { command })
            }
        }
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
