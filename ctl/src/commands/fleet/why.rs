//! Why hosts of a fleet are not healthy: those with one cause together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::{FleetHost, FleetInstance};

use super::chosen::{Chosen, first_of};
use super::{hosts, services};
use crate::failure::Failure;
use crate::output::{Cell, Page, Table, Terminal, Tone, cell, some, toned, views};

/// The hosts that have one cause.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    cause: String,
    /// By name.
    hosts: Vec<String>,
    /// Those that most hosts name come first.
    services: Vec<String>,
}

/// A host and what is to be said of it.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    name: String,
    /// Its health, or the problem with its entry.
    text: String,
}

/// A host that is not there, and what it registers nevertheless.
#[derive(Debug, PartialEq, Eq)]
struct Gone {
    name: String,
    services: Vec<String>,
}

/// All that is wrong with the hosts of a fleet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Causes {
    hosts: usize,
    healthy: usize,
    /// Those of most hosts come first.
    causes: Vec<Group>,
    /// Not healthy, and nothing says why.
    without: Vec<Named>,
    unreadable: Vec<Named>,
    gone: Vec<Gone>,
}

views! {
    // `healthy`: how many of `hosts`. `without_cause`: those that are not healthy and name no cause. `gone`: hosts that are not
    // registered, and services that are.
    Causes: all {
        hosts, healthy, causes, without_cause: all.without.iter().map(state).collect::<Vec<_>>(),
        unreadable: all.unreadable.iter().map(problem).collect::<Vec<_>>(), gone,
    }
    Group: group { cause, count: group.hosts.len(), services, hosts }
    Gone: gone { name, services }
}

fn state(host: &Named) -> serde_yaml::Value {
    crate::output::object!(name: host.name, health: some(&host.text))
}

fn problem(host: &Named) -> serde_yaml::Value {
    crate::output::object!(name: host.name, problem: host.text)
}

/// What the store has about these hosts.
pub async fn ask(client: &Client, chosen: &Chosen, timeout: Duration) -> Result<Causes, Failure> {
    of(client, chosen, &chosen.of(client, timeout).await?, timeout).await
}

/// What the store has about these hosts, which were chosen.
pub async fn of(
    client: &Client,
    chosen: &Chosen,
    there: &[FleetHost],
    timeout: Duration,
) -> Result<Causes, Failure> {
    let mut causes = Causes::of(there);
    if !chosen.is_by_labels() {
        let mut left = services::all(client, String::new(), timeout).await?;
        left.retain(|one| chosen.has(&one.host));
        let names = |hosts: &[FleetHost]| hosts.iter().map(|host| host.name.clone()).collect::<BTreeSet<_>>();
        let mut known = names(there);
        if left.iter().any(|one| !known.contains(&one.host)) {
            // It may have come in between.
            known.extend(names(&hosts::all(client, timeout).await?));
        }
        causes.gone = gone(&left, &known);
    }
    Ok(causes)
}

/// The hosts with registered services that are not known themselves.
fn gone(instances: &[FleetInstance], known: &BTreeSet<String>) -> Vec<Gone> {
    let mut hosts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in instances.iter().filter(|one| !known.contains(&one.host)) {
        hosts.entry(&one.host).or_default().push(one.name.clone());
    }
    let gone = hosts.into_iter().map(|(name, mut services)| {
        services.dedup();
        Gone { name: name.to_owned(), services }
    });
    gone.collect()
}

impl Causes {
    fn of(hosts: &[FleetHost]) -> Causes {
        let mut all = Causes { hosts: hosts.len(), ..Causes::default() };
        // For each cause its hosts, and how many of them name which service.
        let mut groups: BTreeMap<&str, (BTreeSet<&str>, BTreeMap<&str, usize>)> = BTreeMap::new();
        for host in hosts {
            let named = |text: &str| Named { name: host.name.clone(), text: text.to_owned() };
            if !host.problem.is_empty() {
                all.unreadable.push(named(&host.problem));
            } else if host.health == "healthy" {
                all.healthy += 1;
            } else if host.causes.is_empty() {
                all.without.push(named(&host.health));
            } else {
                for one in &host.causes {
                    let (hosts, services) = groups.entry(&one.cause).or_default();
                    hosts.insert(&host.name);
                    *services.entry(&one.service).or_default() += 1;
                }
            }
        }
        all.causes =
            groups.into_iter().map(|(cause, (hosts, services))| group(cause, hosts, services)).collect();
        all.causes.sort_by_key(|group| std::cmp::Reverse(group.hosts.len()));
        all
    }

    pub fn page(&self, terminal: &Terminal) -> Page {
        if self.hosts == 0 && self.gone.is_empty() {
            return Page::Text("no host is registered\n".to_owned());
        }
        let hosts = if self.hosts == 1 { "host" } else { "hosts" };
        let line = match self.hosts - self.healthy {
            0 => format!("all of {} {hosts} healthy", self.hosts),
            sick => format!("{sick} of {} {hosts} not healthy", self.hosts),
        };
        let table = self.table();
        let rows = if table.is_empty() { String::new() } else { Page::Table(table).render(terminal) };
        Page::Text(format!("{line}\n{rows}"))
    }

    fn table(&self) -> Table {
        let mut rows: Vec<Row> = self.causes.iter().map(Row::of).collect();
        let without: Vec<&str> = self.without.iter().map(|host| host.name.as_str()).collect();
        let unreadable: Vec<&str> = self.unreadable.iter().map(|host| host.name.as_str()).collect();
        let gone: Vec<&str> = self.gone.iter().map(|host| host.name.as_str()).collect();
        let left: BTreeSet<&str> =
            self.gone.iter().flat_map(|host| &host.services).map(String::as_str).collect();
        let left: Vec<&str> = left.into_iter().collect();
        rows.extend(Row::other("no cause is known", &without, &[]));
        rows.extend(Row::other("the entry in the store cannot be read", &unreadable, &[]));
        rows.extend(Row::other("gone, with services registered", &gone, &left));
        Table::of(rows)
            .right("HOSTS", |row| row.count.to_string())
            .cut("CAUSE", |row| row.cause.clone())
            .cut("SERVICES", |row| row.services.clone())
            .cut("NAMES", |row| row.names.clone())
            .into()
    }
}

fn group(cause: &str, hosts: BTreeSet<&str>, services: BTreeMap<&str, usize>) -> Group {
    // That of the host itself has no name.
    let mut named: Vec<(&str, usize)> = services.into_iter().filter(|(name, _)| !name.is_empty()).collect();
    named.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Group {
        cause: cause.to_owned(),
        hosts: hosts.into_iter().map(str::to_owned).collect(),
        services: named.into_iter().map(|(name, _)| name.to_owned()).collect(),
    }
}

struct Row {
    count: usize,
    cause: Cell,
    services: String,
    names: String,
}

impl Row {
    fn of(group: &Group) -> Row {
        let (services, names) = (first_of(&group.services), first_of(&group.hosts));
        Row { count: group.hosts.len(), cause: cell(&group.cause), services, names }
    }

    /// Hosts without a cause of their own, if there are any.
    fn other(what: &str, hosts: &[&str], services: &[&str]) -> Option<Row> {
        let (services, names) = (first_of(services), first_of(hosts));
        let cause = toned(Tone::Waiting, what);
        (!hosts.is_empty()).then_some(Row { count: hosts.len(), cause, services, names })
    }
}

#[cfg(test)]
mod tests {
    use kelson_proto::v1::FleetCause;

    use super::*;

    fn host(name: &str, health: &str, causes: &[(&str, &str)]) -> FleetHost {
        let cause = |&(service, cause): &(&str, &str)| FleetCause {
            service: service.to_owned(),
            cause: cause.to_owned(),
        };
        FleetHost {
            name: name.to_owned(),
            health: health.to_owned(),
            causes: causes.iter().map(cause).collect(),
            ..FleetHost::default()
        }
    }

    fn groups(all: &Causes) -> Vec<(usize, &str, String)> {
        all.causes.iter().map(|one| (one.hosts.len(), one.cause.as_str(), one.services.join(" "))).collect()
    }

    #[test]
    fn hosts_with_one_cause_stand_together_and_the_largest_group_first() {
        let all = Causes::of(&[
            host("a", "unhealthy", &[("db", "disk full"), ("api", "expired"), ("web", "expired")]),
            host("b", "failed", &[("web", "expired")]),
            host("c", "pending", &[("", "no files")]),
            host("d", "healthy", &[]),
        ]);
        assert_eq!((all.hosts, all.healthy), (4, 1));
        assert_eq!(
            groups(&all),
            [
                (2, "expired", "web api".to_owned()),
                (1, "disk full", "db".to_owned()),
                (1, "no files", String::new())
            ]
        );
        assert_eq!(all.causes[0].hosts, ["a", "b"]);
    }

    #[test]
    fn who_names_no_cause_is_named_and_so_is_who_cannot_be_read() {
        let strange = FleetHost { problem: "no JSON".to_owned(), ..host("c", "", &[]) };
        let all = Causes::of(&[host("a", "unhealthy", &[]), host("b", "", &[]), strange]);
        let names = |all: &[Named]| all.iter().map(|host| host.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            (names(&all.without), names(&all.unreadable)),
            (vec!["a".into(), "b".into()], vec!["c".into()])
        );
        assert_eq!(all.causes, []);
    }

    #[test]
    fn a_host_is_gone_whose_services_alone_are_registered() {
        let instance = |host: &str, name: &str| FleetInstance {
            host: host.to_owned(),
            name: name.to_owned(),
            ..FleetInstance::default()
        };
        let known = BTreeSet::from(["a".to_owned()]);
        let instances = [
            instance("a", "db"),
            instance("z", "db"),
            instance("z", "db"),
            instance("y", "web"),
            instance("z", "web"),
        ];
        let gone: Vec<(String, String)> =
            gone(&instances, &known).into_iter().map(|host| (host.name, host.services.join(" "))).collect();
        assert_eq!(gone, [("y".to_owned(), "web".to_owned()), ("z".to_owned(), "db web".to_owned())]);
    }

    /// Twenty causes of a thousand hosts fit on a screen of 80 columns and 24 lines, and each can be recognised.
    #[test]
    fn twenty_causes_of_a_thousand_hosts_fit_on_a_screen() {
        let hosts: Vec<FleetHost> = (0..1000)
            .map(|number| {
                let cause = number % 20;
                let text = format!(
                    "preparing failed: {cause} of twenty reasons that fill more than a line of a terminal"
                );
                host(&format!("frankfurt-edge-{number:04}"), "unhealthy", &[("application-server", &text)])
            })
            .collect();
        let all = Causes::of(&hosts);
        let terminal = Terminal { width: Some(80), ..Terminal::plain() };
        let Page::Text(text) = all.page(&terminal) else { panic!("text") };
        assert_eq!(text.lines().count(), 22, "{text}");
        assert!(text.lines().all(|line| crate::output::width(line) <= 80), "{text}");
        for cause in 0..20 {
            assert!(text.contains(&format!("preparing failed: {cause} of")), "{text}");
        }
    }
}
