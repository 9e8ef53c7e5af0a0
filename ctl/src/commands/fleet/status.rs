//! How a host is connected with the store of its fleet.

use std::collections::BTreeMap;
use std::time::SystemTime;

use kelson_api::client::Client;
use kelson_proto::v1::{FleetConnection, FleetMembership, FleetStatusRequest};
use prost_types::Timestamp;

use crate::failure::{Failure, answer};
use crate::output::{Cell, Table, Terminal, Tone, escape, or_dash, some, time, toned, views};

pub const NONE: &str = "this host belongs to no fleet: its machine file has no `fleet`";

views! {
    // `since`: when it is connected, or is not. Null, as `last_confirmed`, where it never was since kelson-fleet started.
    // `problem`: null where it is connected. `certificate_until`: null where no issuer gave the host its certificate. `lease`: as etcdctl writes it; null where there is none.
    FleetMembership: member {
        name, id: some(&connection(member).id), prefix, endpoints,
        labels: member.labels.iter().collect::<BTreeMap<_, _>>(), connected: connection(member).connected,
        since: connection(member).since, last_confirmed: connection(member).last_confirmed,
        problem: some(&connection(member).problem), lease: lease(member),
        certificate_until: connection(member).certificate_until,
        certificate_problem: some(&connection(member).certificate_problem),
    }
}

/// `None`: the host belongs to no fleet.
pub async fn ask(client: &Client) -> Result<Option<FleetMembership>, Failure> {
    Ok(answer(client.fleet().status(FleetStatusRequest {})).await?.membership)
}

fn connection(member: &FleetMembership) -> FleetConnection {
    member.connection.clone().unwrap_or_default()
}

fn lease(member: &FleetMembership) -> Option<String> {
    Some(connection(member).lease).filter(|lease| *lease != 0).map(|lease| format!("{lease:016x}"))
}

/// What is known, a line each.
pub fn lines(member: &FleetMembership, now: SystemTime) -> String {
    let FleetConnection {
        connected,
        since,
        last_confirmed,
        problem,
        id,
        certificate_until,
        certificate_problem,
        ..
    } = connection(member);
    let at =
        |time: &Timestamp| format!("{} ({} ago)", time::rfc3339(time), time::relative(time::ago(time, now)));
    let connected = match (connected, &since) {
        (true, Some(since)) => format!("yes, since {}", at(since)),
        (false, Some(since)) => format!("no, lost since {}", at(since)),
        (true, None) => "yes".to_owned(),
        (false, None) => "no, never since kelson-fleet started".to_owned(),
    };
    let confirmed = last_confirmed.as_ref().map(at);
    let until = certificate_until.as_ref().map(|until| format!("until {}", time::rfc3339(until)));
    let problem_of_it = some(&certificate_problem).map(ToString::to_string);
    let certificate: Vec<String> = until.into_iter().chain(problem_of_it).collect();
    let certificate = certificate.join("; ");
    let labels: BTreeMap<_, _> = member.labels.iter().collect();
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let facts = [
        ("name", member.name.clone()),
        ("id", id),
        ("connected", connected),
        ("last confirmed", confirmed.unwrap_or_else(|| "never since kelson-fleet started".to_owned())),
        ("problem", problem),
        ("certificate", certificate),
        ("lease", lease(member).unwrap_or_default()),
        ("endpoints", member.endpoints.join(", ")),
        ("prefix", member.prefix.clone()),
        ("labels", labels.join(", ")),
    ];
    let known = facts.iter().filter(|(_, value)| !value.is_empty());
    known.map(|(what, value)| format!("{what:<14}  {}\n", escape(value))).collect()
}

pub fn table(member: &FleetMembership, terminal: &Terminal, now: SystemTime) -> Table {
    let state = connection(member);
    let at = |time: &Option<Timestamp>| or_dash(time.as_ref().map(|time| terminal.time(time, now)));
    Table::of([member])
        .left("NAME", |member| &member.name)
        .left("CONNECTED", |_| connected(&state))
        .left("SINCE", |_| at(&state.since))
        .left("LAST CONFIRMED", |_| at(&state.last_confirmed))
        .cut("PROBLEM", |_| toned(Tone::Bad, &state.problem))
        .into()
}

fn connected(state: &FleetConnection) -> Cell {
    if state.connected { toned(Tone::Good, "yes") } else { toned(Tone::Bad, "no") }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    // 2026-11-21 09:48:05 UTC.
    const NOW: i64 = 1_795_254_485;

    fn shown(connection: FleetConnection) -> String {
        let member = FleetMembership {
            name: "edge-1".to_owned(),
            prefix: "/kelson/v1".to_owned(),
            endpoints: vec!["https://a:2379".to_owned(), "https://b:2379".to_owned()],
            labels: [("site", "fra"), ("role", "edge")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            connection: Some(connection),
        };
        lines(&member, UNIX_EPOCH + Duration::from_secs(NOW as u64))
    }

    #[test]
    fn connected_or_lost_since_when() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let connection = FleetConnection {
            connected: true,
            since: at(NOW - 192),
            last_confirmed: at(NOW - 5),
            problem: String::new(),
            lease: 0x694d_77aa_0000_0033,
            id: "5c0f".to_owned(),
            ..FleetConnection::default()
        };
        assert_eq!(
            shown(connection.clone()),
            "\
name            edge-1
id              5c0f
connected       yes, since 2026-11-21T09:44:53.000Z (3m12s ago)
last confirmed  2026-11-21T09:48:00.000Z (5s ago)
lease           694d77aa00000033
endpoints       https://a:2379, https://b:2379
prefix          /kelson/v1
labels          role=edge, site=fra
"
        );
        let problem = "https://a:2379: connection refused".to_owned();
        let lost = shown(FleetConnection { connected: false, problem, ..connection });
        assert!(
            lost.contains("connected       no, lost since 2026-11-21T09:44:53.000Z (3m12s ago)\n"),
            "{lost}"
        );
        assert!(lost.contains("problem         https://a:2379: connection refused\n"), "{lost}");
        let never = shown(FleetConnection::default());
        assert!(never.contains("connected       no, never since kelson-fleet started\n"), "{never}");
        assert!(!never.contains("lease"), "{never}");
    }
}
