//! Health checks: the list `health`.

use std::time::Duration;

use super::{Decoder, Place};
use crate::service::{Asks, Check, GrpcProbe, HttpProbe, NetworkProbe, Probe};
use crate::tree::{Node, Position, Value};

const PROBES: [&str; 4] = ["http", "tcp", "grpc", "exec"];
const KEYS: [&str; 12] = [
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
];

/// Probes of the contract that this version reads and has nobody for.
pub(super) const NO_NETWORK_PROBES: &str =
    "this version of Kelson runs no http, tcp and grpc checks; use exec, or leave the check out";

/// Where in a list of checks such probes are written.
pub(super) fn network_probes(list: &Node) -> impl Iterator<Item = Position> {
    let checks = match &list.value {
        Value::Sequence(checks) => checks.as_slice(),
        _ => &[],
    };
    let entries = checks.iter().flat_map(|check| match &check.value {
        Value::Mapping(entries) => entries.as_slice(),
        _ => &[],
    });
    entries.filter_map(|entry| match &entry.key.value {
        Value::Scalar(key) if matches!(key.as_str(), "http" | "tcp" | "grpc") => Some(entry.key.at),
        _ => None,
    })
}

/// The shortest time between two runs of a check, and the shortest timeout.
const SHORTEST: Duration = Duration::from_millis(10);
/// The largest count of results in a row.
const MOST: u32 = 1_000;

fn network(port: u16, asks: Asks) -> Probe {
    Probe::Network(NetworkProbe { address: NetworkProbe::ADDRESS, port, asks })
}

impl Decoder<'_> {
    pub(super) fn health(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<Check>> {
        let mut names: Vec<String> = Vec::new();
        self.list(place, node, "a list of checks", |d, p, n| {
            let check = d.check(p, n)?;
            if names.contains(&check.name) {
                let text = format!("two checks are named {}; give each a name of its own", check.name);
                d.wrong(&Place::Key(p, "name"), n.at, text);
            }
            names.push(check.name.clone());
            Some(check)
        })
    }

    fn check(&mut self, place: &Place<'_>, node: &Node) -> Option<Check> {
        let fields = self.fields(place, node, &KEYS)?;
        let kind = self.one_of(&fields, &PROBES);
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
        probe.map(|_| check)
    }

    fn probe(&mut self, kind: &str, place: &Place<'_>, node: &Node) -> Option<Probe> {
        let allowed: &[&str] = match kind {
            "http" => &["port", "path"],
            "tcp" => &["port"],
            "grpc" => &["port", "service"],
            _ => &["command"],
        };
        let fields = self.fields(place, node, allowed)?;
        if kind == "exec" {
            let example = "command: [PROGRAM, ARGUMENT]";
            let command = self.require(&fields, "command", example, |d, p, n| d.command(p, n))?;
            return Some(Probe::Exec { command });
        }
        let port = self.require(&fields, "port", "port: NUMBER", |d, p, n| d.number(p, n, 1..=u16::MAX));
        match kind {
            "http" => {
                let mut path = "/".to_owned();
                self.set(&fields, "path", &mut path, |d, p, n| d.url_path(p, n));
                let http =
                    HttpProbe { path, host: None, headers: vec![], status: vec![], body: None, tls: None };
                Some(network(port?, Asks::Http(http)))
            }
            "grpc" => {
                let mut service = String::new();
                self.set(&fields, "service", &mut service, |d, p, n| d.text(p, n));
                Some(network(port?, Asks::Grpc(GrpcProbe { service, host: None, tls: None })))
            }
            _ => Some(network(port?, Asks::Tcp)),
        }
    }

    fn url_path(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let path = self.text(place, node)?;
        if !path.starts_with('/') || path.contains(|c: char| c.is_ascii_control() || c == ' ') {
            let text = format!("{} is not a path of a URL; write it with / first", super::quoted(&path));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(path)
    }
}
