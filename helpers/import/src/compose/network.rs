//! The network of a service of a compose file.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

use kelson_spec::container_network::{PortSpec, Protocol};
use kelson_spec::service::ContainerNetwork;

use super::draft::Draft;
use crate::finding::Outcome;
use crate::yaml::{Kind, Value};

/// The most ports of one range.
const MOST_PORTS: usize = 256;

pub fn mode(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    draft.container.network = match value.text() {
        Some("host") => ContainerNetwork::Host,
        Some("none") => ContainerNetwork::None,
        Some("" | "bridge") => ContainerNetwork::Bridge,
        _ => return Outcome::rejected("the container has a network of its own"),
    };
    Outcome::as_table()
}

/// Names of networks; with them settings of the service there.
fn of_service(service: &Value) -> Vec<&str> {
    match service.get("networks") {
        None => vec!["default"],
        Some(networks) => match &networks.content {
            Kind::Map(entries) => entries.iter().map(|(name, _)| name.as_str()).collect(),
            _ => networks.texts().unwrap_or_default(),
        },
    }
}

pub fn networks(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let mut outcome = Outcome::as_table();
    let own: Vec<&str> = match &value.content {
        Kind::Map(entries) => entries.iter().map(|(name, _)| name.as_str()).collect(),
        _ => value.texts().unwrap_or_default(),
    };
    let is_apart = |other: &Value| !of_service(other).iter().any(|name| own.contains(name));
    let apart: Vec<&str> = draft
        .context
        .services()
        .iter()
        .filter(|(_, other)| is_apart(other))
        .map(|(name, _)| name.as_str())
        .collect();
    if !apart.is_empty() {
        let sentence = format!("services of other networks reach it too: {}", apart.join(", "));
        outcome = outcome.and(Outcome::approximated(sentence));
    }
    for name in own {
        if draft
            .context
            .named("networks", name)
            .and_then(|network| network.get("internal"))
            .is_some_and(Value::is_true)
        {
            outcome = outcome.and(Outcome::rejected(format!("{name}: the container reaches other machines")));
        }
        for (key, setting) in value.get(name).map_or(&[][..], Value::entries) {
            let own_name = |alias: &&str| *alias == draft.name;
            let lost = match key.as_str() {
                "aliases" => !setting.texts().unwrap_or_default().iter().all(own_name),
                "priority" | "gw_priority" => false,
                _ => !setting.is_empty(),
            };
            if lost {
                outcome = outcome.and(Outcome::rejected(format!("{name}: {key} has no counterpart")));
            }
        }
    }
    outcome
}

pub fn ports(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    if value.items().is_empty() && !value.is_empty() {
        return Outcome::rejected("this is no list of ports");
    }
    value.items().iter().map(|item| port(draft, item)).collect()
}

fn port(draft: &mut Draft<'_>, item: &Value) -> Outcome {
    let text = |key: &str| item.get(key).and_then(Value::text).unwrap_or_default();
    let (address, host, container, protocol) = match &item.content {
        Kind::Text(port) => short(port),
        _ => (text("host_ip"), text("published"), text("target"), text("protocol")),
    };
    let protocol = match protocol {
        "" | "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        other => return Outcome::rejected(format!("no port has the protocol {other}")),
    };
    let Some(inside) = range(container) else {
        return Outcome::rejected(format!("{container:?} is no port"));
    };
    let outside = match host {
        "" => None,
        host => match range(host) {
            Some(ports) if ports.len() == inside.len() => Some(ports),
            _ => {
                return Outcome::rejected(format!(
                    "{host:?} are not as many ports of the host as of the container"
                ));
            }
        },
    };
    let address = match (address, &outside) {
        (_, None) | ("" | "0.0.0.0" | "::", _) => None,
        (address, _) => match address.parse::<IpAddr>() {
            Ok(address) if address != IpAddr::V6(Ipv6Addr::LOCALHOST) => Some(address),
            _ => {
                return Outcome::rejected(format!(
                    "{container}: no port leads there on the address {address}"
                ));
            }
        },
    };
    let outcome = match outside {
        Some(_) => Outcome::as_table(),
        None => Outcome::rejected(format!("{container}: no port of the host leads there; write which one")),
    };
    let mut outside = outside.into_iter().flatten();
    for container in inside {
        let name = match protocol {
            Protocol::Tcp => format!("port-{container}"),
            Protocol::Udp => format!("port-{container}-udp"),
        };
        let taken = draft
            .container
            .ports
            .iter()
            .filter(|known| known.container == container && known.protocol == protocol)
            .count();
        let name = if taken == 0 { name } else { format!("{name}-{taken}") };
        draft.container.ports.push(PortSpec { name, container, host: outside.next(), protocol, address });
    }
    outcome
}

/// `[[ADDRESS:]HOST:]CONTAINER[/PROTOCOL]`: address, port of the host, port of the container, protocol.
fn short(text: &str) -> (&str, &str, &str, &str) {
    let (ports, protocol) = text.split_once('/').unwrap_or((text, ""));
    let Some((before, container)) = ports.rsplit_once(':') else { return ("", "", ports, protocol) };
    let (address, host) = before.rsplit_once(':').unwrap_or(("", before));
    (address.trim_start_matches('[').trim_end_matches(']'), host, container, protocol)
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let range = port(first)?..=port(last)?;
    (!range.is_empty() && range.len() <= MOST_PORTS).then_some(range)
}
