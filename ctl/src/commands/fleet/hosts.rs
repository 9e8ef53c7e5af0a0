//! The hosts of a fleet.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use kelson_api::client::Client;
use kelson_proto::v1::{FleetCause, FleetHost, FleetHostsRequest};
use kelson_sys::fnmatch;

use crate::failure::{Failure, Kind, unknown_names, within};
use crate::output::{Cell, Table, Terminal, Tone, cell, or_dash, some, toned, views};

const HOSTS: Kind = Kind { noun: "host", all: "kelsonctl fleet hosts" };

views! {
    // All but `name` is empty or null where the entry in the store cannot be read, and `problem` says why; otherwise it is null.
    // `health`: pending, healthy, unhealthy, failed; null where it is not known. `causes`: why it is not healthy.
    FleetHost: host {
        name, health: some(&host.health), causes, version: some(&host.version), addresses,
        labels: host.labels.iter().collect::<BTreeMap<_, _>>(), since, id: some(&host.id), boot_id: some(&host.boot_id),
        facts: host.facts.iter().collect::<BTreeMap<_, _>>(), problem: some(&host.problem),
    }
    // `service`: null where the host itself is meant.
    FleetCause: one { service: some(&one.service), cause }
}

/// All, page by page.
pub async fn all(client: &Client, timeout: Duration) -> Result<Vec<FleetHost>, Failure> {
    let pages = async {
        let (mut fleet, mut hosts, mut after) = (client.fleet(), Vec::new(), String::new());
        loop {
            let request = FleetHostsRequest { after: after.clone(), limit: 0 };
            let page = fleet.hosts(request).await?.into_inner();
            hosts.extend(page.hosts);
            match hosts.last() {
                Some(FleetHost { name, .. }) if page.more && *name > after => after.clone_from(name),
                _ if page.more => {
                    return Err(Failure::Failed("the host sends the same hosts again and again".to_owned()));
                }
                _ => return Ok(hosts),
            }
        }
    };
    within(timeout, pages).await
}

/// Whether one of these patterns is about it; none is about all.
pub fn is_one(name: &str, patterns: &[String]) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| fnmatch::matches(pattern, name))
}

/// # Errors
/// One of the patterns is a name that no host has.
pub fn known(hosts: &[FleetHost], patterns: &[String]) -> Result<(), Failure> {
    let names: Vec<String> =
        patterns.iter().filter(|pattern| !pattern.contains(['*', '?', '['])).cloned().collect();
    let known: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
    unknown_names(&HOSTS, &names, &known).map_or(Ok(()), |said| Err(Failure::Failed(said)))
}

pub fn table(hosts: &[FleetHost], terminal: &Terminal) -> Table {
    let now = SystemTime::now();
    Table::of(hosts)
        .left("NAME", |host| &host.name)
        .left("HEALTH", |host| health(host))
        .left("VERSION", |host| or_dash(some(&host.version)))
        .left("ADDRESSES", |host| or_dash(some(&host.addresses.join(","))))
        .cut("LABELS", |host| labels(host))
        .left("SINCE", |host| or_dash(host.since.as_ref().map(|since| terminal.time(since, now))))
        .spare(1)
        .into()
}

pub fn health(host: &FleetHost) -> Cell {
    let tone = match host.health.as_str() {
        "" => return or_dash(None::<&str>),
        "healthy" => Tone::Good,
        "pending" => Tone::Busy,
        _ => Tone::Bad,
    };
    toned(tone, &host.health)
}

/// Its labels, or why nothing of it is known.
fn labels(host: &FleetHost) -> Cell {
    if !host.problem.is_empty() {
        return toned(Tone::Bad, &host.problem);
    }
    let labels: BTreeMap<_, _> = host.labels.iter().collect();
    cell(labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Vec<FleetHost> {
        let host = |name: &str| FleetHost { name: name.to_owned(), ..FleetHost::default() };
        ["edge-1", "edge-10", "lab.lan"].map(host).to_vec()
    }

    #[test]
    fn hosts_are_named_by_patterns() {
        let named = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|&one| one.to_owned()).collect();
            let all = hosts();
            all.iter()
                .filter(|host| is_one(&host.name, &patterns))
                .map(|host| host.name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(named(&[]), ["edge-1", "edge-10", "lab.lan"]);
        assert_eq!(named(&["edge-1"]), ["edge-1"]);
        assert_eq!(named(&["edge-*", "lab*"]), ["edge-1", "edge-10", "lab.lan"]);
        assert_eq!(named(&["edge-??"]), ["edge-10"]);
        assert_eq!(named(&["x*"]), [""; 0]);
    }

    #[test]
    fn a_name_that_no_host_has_is_a_mistake() {
        let known = |words: &str| {
            let patterns: Vec<String> = words.split(' ').map(str::to_owned).collect();
            known(&hosts(), &patterns).map_err(|failure| failure.to_string())
        };
        assert_eq!(known("edge-1 x*"), Ok(()), "a pattern may be about none");
        assert_eq!(
            known("edge-1 edgy-1 nowhere").unwrap_err(),
            "no host \"edgy-1\" and \"nowhere\"; did you mean \"edge-1\"?"
        );
    }
}
