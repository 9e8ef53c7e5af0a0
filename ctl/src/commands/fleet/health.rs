//! How many hosts of a fleet are healthy, and which are not.

use kelson_proto::v1::{FleetCause, FleetHost};

use super::hosts;
use crate::output::{Page, Table, Terminal, views};

/// In this order.
const STATES: [&str; 4] = ["healthy", "pending", "unhealthy", "failed"];

/// The hosts by their health.
pub struct Health<'a> {
    hosts: &'a [FleetHost],
}

views! {
    // How many of `hosts` are so; `unknown`: of those no health is known, or their entry cannot be read. `not_healthy`: each of
    // the others, in the form of `kelsonctl fleet hosts`.
    Health<'_>: health {
        hosts: health.hosts.len(), healthy: health.count("healthy"), pending: health.count("pending"),
        unhealthy: health.count("unhealthy"), failed: health.count("failed"), unknown: health.unknown(),
        not_healthy: health.not_healthy().collect::<Vec<_>>(),
    }
}

impl<'a> Health<'a> {
    pub fn of(hosts: &'a [FleetHost]) -> Health<'a> {
        Health { hosts }
    }

    /// There are hosts, and all are healthy.
    pub fn is_well(&self) -> bool {
        !self.hosts.is_empty() && self.not_healthy().next().is_none()
    }

    fn not_healthy(&self) -> impl Iterator<Item = &'a FleetHost> {
        self.hosts.iter().filter(|host| host.health != "healthy")
    }

    fn count(&self, state: &str) -> usize {
        self.hosts.iter().filter(|host| host.health == state).count()
    }

    fn unknown(&self) -> usize {
        self.hosts.iter().filter(|host| !STATES.contains(&host.health.as_str())).count()
    }

    /// `3 hosts: 2 healthy, 1 failed`, as a line.
    pub fn counts(&self) -> String {
        let counts =
            STATES.map(|state| (self.count(state), state)).into_iter().chain([(self.unknown(), "unknown")]);
        let counts = counts.filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, state)| format!("{count} {state}")).collect();
        let hosts = if self.hosts.len() == 1 { "host" } else { "hosts" };
        match counts.is_empty() {
            true => "no host is registered\n".to_owned(),
            false => format!("{} {hosts}: {}\n", self.hosts.len(), counts.join(", ")),
        }
    }

    pub fn page(&self, terminal: &Terminal) -> Page {
        let mut text = self.counts();
        if self.not_healthy().next().is_some() {
            let table = Table::of(self.not_healthy())
                .left("NAME", |host| &host.name)
                .left("HEALTH", |host| hosts::health(host))
                .cut("CAUSE", |host| cause(host));
            text += &Page::Table(table.into()).render(terminal);
        }
        Page::Text(text)
    }
}

/// `db: disk full, 2 more`.
fn cause(host: &FleetHost) -> String {
    let first = match host.causes.first() {
        None => return host.problem.clone(),
        Some(FleetCause { service, cause }) if service.is_empty() => cause.clone(),
        Some(FleetCause { service, cause }) => format!("{service}: {cause}"),
    };
    match host.causes.len() {
        1 => first,
        count => format!("{first}, {} more", count.saturating_sub(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(health: &str) -> FleetHost {
        FleetHost { health: health.to_owned(), ..FleetHost::default() }
    }

    #[test]
    fn a_fleet_is_well_with_hosts_that_are() {
        let is_well = |words: &[&str]| {
            let hosts: Vec<FleetHost> = words.iter().map(|word| host(word)).collect();
            Health::of(&hosts).is_well()
        };
        assert!(is_well(&["healthy", "healthy"]));
        assert!(!is_well(&[]), "nothing is there");
        for other in ["pending", "unhealthy", "failed", "", "of a later release"] {
            assert!(!is_well(&["healthy", other]), "{other}");
        }
    }

    #[test]
    fn the_first_cause_stands_for_all() {
        let named = |service: &str| FleetCause { service: service.to_owned(), cause: "gone".to_owned() };
        let with = |causes: Vec<FleetCause>| cause(&FleetHost { causes, ..host("unhealthy") });
        assert_eq!(with(vec![named("db")]), "db: gone");
        assert_eq!(with(vec![named(""), named("db"), named("web")]), "gone, 2 more");
        assert_eq!(with(vec![]), "");
    }
}
