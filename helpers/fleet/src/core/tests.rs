//! The core with a model of the store, and a clock that stands still until it is moved.

mod causes;
mod facts;
mod model;

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, UNIX_EPOCH};

use kelson_proto::v1::fleet_command::Command;
use kelson_proto::v1::fleet_report::Report;
use kelson_proto::v1::{FleetConnection, FleetHealth, FleetRegister, FleetRemove, FleetServiceState};
use kelson_spec::fleet::FleetSpec;

use super::{Core, Host};
use crate::clock::Now;
use crate::limits::Limits;
use crate::step::{Outcome, Step};
use model::Store;

const SECOND: Duration = Duration::from_secs(1);
const HOST: &str = "/kelson/v1/hosts/edge-1";

/// A host and the store of its fleet.
struct Fleet {
    core: Core,
    store: Store,
    at: Duration,
    /// The steps that were done, by name.
    steps: Vec<String>,
    reports: Vec<Report>,
    address: IpAddr,
}

impl Fleet {
    fn new() -> Fleet {
        Fleet::with(Store::default(), "id-1", None)
    }

    fn with(store: Store, id: &str, lease: Option<i64>) -> Fleet {
        Fleet::named("edge-1", store, id, lease)
    }

    fn named(name: &str, store: Store, id: &str, lease: Option<i64>) -> Fleet {
        let host = Host { id: id.into(), boot_id: "boot".into(), name: name.into(), lease, contact: None };
        let at = Duration::from_secs(1000).max(store.at);
        let core = Core::new(host, Limits::default(), now(at));
        let address = Ipv4Addr::new(10, 0, 0, 1).into();
        let mut fleet = Fleet { core, store, at, steps: Vec::new(), reports: Vec::new(), address };
        let endpoints = vec!["http://a:1".into(), "http://b:1".into(), "http://c:1".into()];
        fleet.core.set(FleetSpec { endpoints, ..FleetSpec::default() }, now(at));
        fleet.act();
        fleet
    }

    /// The helper is replaced.
    fn replace(self) -> Fleet {
        let lease = self.core.lease();
        Fleet::with(self.store, "id-1", lease)
    }

    fn send(&mut self, command: Command) {
        self.core.command(command, now(self.at));
        self.act();
    }

    fn register(&mut self, service: &str, name: &str) {
        let (service, name) = (service.to_owned(), name.to_owned());
        self.send(Command::Register(FleetRegister { service, name, port: 80, ..FleetRegister::default() }));
    }

    fn remove(&mut self, service: &str, number: u64) {
        self.send(Command::Remove(FleetRemove { service: service.to_owned(), number }));
    }

    /// Does the steps of this instant.
    fn act(&mut self) {
        self.core.tick(now(self.at));
        for _ in 0..100 {
            let Some(step) = self.core.step(now(self.at)) else {
                self.reports.extend(std::iter::from_fn(|| self.core.next_report()));
                return;
            };
            self.store.at = self.at;
            let outcome = match &step {
                Step::Connect(_) if self.store.down.is_empty() => Outcome::Connected(self.address),
                step => self.store.perform(step),
            };
            let name = format!("{step:?}").split(['(', ' ']).next().unwrap().to_owned();
            self.steps.push(if matches!(outcome, Outcome::Failed(_) | Outcome::Refused(_)) {
                format!("{name}!")
            } else {
                name
            });
            self.core.done(outcome, now(self.at));
        }
        panic!("it does not rest: {:?}", self.steps);
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) {
        let end = self.at + time;
        while self.at < end {
            let wake = self.core.wake(now(self.at)).unwrap_or(end);
            self.at = wake.max(self.at + Duration::from_millis(1)).min(end);
            self.act();
        }
    }

    /// The steps since this was last asked.
    fn steps(&mut self) -> String {
        std::mem::take(&mut self.steps).join(" ")
    }

    /// The changes in the store since this was last asked.
    fn changes(&mut self) -> Vec<String> {
        self.store.expire(self.at);
        std::mem::take(&mut self.store.changes)
    }

    fn connection(&self) -> FleetConnection {
        let found = self.reports.iter().rev().find_map(|report| match report {
            Report::Connection(connection) => Some(connection.clone()),
            _ => None,
        });
        found.unwrap()
    }

    fn state(&self, service: &str) -> FleetServiceState {
        let found = self.reports.iter().rev().find_map(|report| match report {
            Report::Service(state) if state.service == service => Some(state.clone()),
            _ => None,
        });
        found.unwrap()
    }

    /// The answer about a removal.
    fn removed(&self, number: u64) -> Option<&str> {
        self.reports.iter().find_map(|report| match report {
            Report::Removed(removed) if removed.number == number => Some(removed.problem.as_str()),
            _ => None,
        })
    }
}

fn now(at: Duration) -> Now {
    Now { at, wall: UNIX_EPOCH + Duration::from_secs(1_700_000_000) + at }
}

fn key(service: &str, name: &str) -> String {
    format!("/kelson/v1/services/{name}/edge-1/{service}")
}

fn healthy() -> FleetHealth {
    FleetHealth { state: "healthy".into(), causes: Vec::new() }
}

/// A host with services, registered.
fn registered(services: &[&str]) -> Fleet {
    let mut fleet = Fleet::new();
    fleet.send(Command::Health(healthy()));
    services.iter().for_each(|service| fleet.register(service, "web"));
    fleet.send(Command::Complete(true));
    assert!(fleet.connection().connected);
    fleet.steps();
    fleet.changes();
    fleet
}

#[test]
fn all_is_registered_in_one_transaction() {
    let mut fleet = Fleet::new();
    assert_eq!(fleet.steps(), "Connect Look Grant Commit");
    assert_eq!(fleet.changes(), [format!("put {HOST}")]);
    fleet.store.down = "connection refused".into();
    fleet.pass(Duration::from_secs(9));
    fleet.send(Command::Health(healthy()));
    for number in 0..3 {
        fleet.register(&format!("s{number}"), "web");
    }
    assert_eq!(fleet.state("s1").state, "registering");
    fleet.steps();
    fleet.store.down.clear();
    fleet.pass(Duration::from_secs(15));
    let steps = fleet.steps();
    assert!(steps.contains("Look Commit") && steps.matches("Commit").count() == 1, "{steps}");
    let services = (0..3).map(|number| format!("put {}", key(&format!("s{number}"), "web")));
    assert_eq!(fleet.changes(), [vec![format!("put {HOST}")], services.collect()].concat());
    assert_eq!(fleet.state("s1").state, "registered");
    assert_eq!(fleet.state("s1").address, "10.0.0.1");
}

#[test]
fn many_services_take_several_transactions() {
    let mut fleet = Fleet::new();
    fleet.store.down = "connection refused".into();
    fleet.pass(Duration::from_secs(10));
    for number in 0..250 {
        fleet.register(&format!("s{number}"), "web");
    }
    fleet.steps();
    fleet.store.down.clear();
    fleet.pass(Duration::from_secs(15));
    assert!(fleet.steps().contains("Look Commit Commit Commit"));
    assert_eq!(fleet.store.values.len(), 251);
}

#[test]
fn a_lease_is_renewed_at_a_third_of_its_time() {
    let mut fleet = registered(&["a"]);
    fleet.pass(Duration::from_secs(250));
    let renewals = fleet.steps();
    let count = renewals.split(' ').filter(|step| *step == "Renew").count();
    assert!((22..=28).contains(&count) && !renewals.contains("Commit"), "{count}: {renewals}");
    assert!(fleet.changes().is_empty());
    // Now and then it looks whether the store still has it all.
    fleet.store.delete(&key("a", "web"));
    fleet.pass(Duration::from_secs(60));
    assert!(fleet.steps().contains("Look Commit"));
    assert_eq!(fleet.changes().last().unwrap(), &format!("put {}", key("a", "web")));
}

#[test]
fn a_helper_that_is_replaced_changes_nothing() {
    let mut fleet = registered(&["a", "b"]);
    for _ in 0..20 {
        fleet = fleet.replace();
        assert_eq!(fleet.steps(), "Connect Renew Look");
        // PID 1 sends all of it again, one by one.
        fleet.register("a", "web");
        fleet.register("b", "web");
        fleet.send(Command::Health(healthy()));
        fleet.send(Command::Complete(true));
        fleet.pass(SECOND);
        assert_eq!((fleet.steps().as_str(), fleet.changes()), ("", vec![]));
        assert_eq!(fleet.state("b").state, "registered");
    }
}

#[test]
fn nothing_is_deleted_before_all_is_known() {
    let mut fleet = registered(&["a", "b", "c"]).replace();
    fleet.register("a", "web");
    fleet.pass(Duration::from_secs(60));
    assert!(fleet.changes().is_empty());
    // Another name of a service makes the old one stale at once, and so does a removal.
    fleet.register("a", "shop");
    assert_eq!(fleet.changes(), [format!("delete {}", key("a", "web")), format!("put {}", key("a", "shop"))]);
    fleet.remove("b", 7);
    assert_eq!((fleet.changes(), fleet.removed(7)), (vec![format!("delete {}", key("b", "web"))], Some("")));
    fleet.send(Command::Complete(true));
    assert_eq!(fleet.changes(), [format!("delete {}", key("c", "web"))]);
}

#[test]
fn a_host_that_was_cut_off_for_long_registers_once_and_not_at_once() {
    let mut waits = Vec::new();
    for _ in 0..20 {
        let mut fleet = registered(&["a", "b"]);
        fleet.store.down = "connection refused".into();
        fleet.pass(Duration::from_secs(120));
        let lost = fleet.connection();
        assert!(!lost.connected && lost.problem.contains("connection refused"), "{lost:?}");
        assert_eq!(fleet.state("a").state, "registering");
        assert_eq!(fleet.changes().len(), 3);
        fleet.store.down.clear();
        let since = fleet.at;
        while !fleet.connection().connected {
            fleet.pass(SECOND / 10);
        }
        waits.push((fleet.at - since).as_secs());
        assert_eq!(
            fleet.changes(),
            [HOST, &key("a", "web"), &key("b", "web")].map(|key| format!("put {key}"))
        );
    }
    // Backoff of at most 15 s, and 20 s of its own.
    assert!(waits.iter().all(|wait| *wait <= 36) && waits.iter().max() > waits.iter().min(), "{waits:?}");
}

#[test]
fn a_host_is_connected_until_its_lease_may_have_expired() {
    let mut fleet = registered(&["a"]);
    fleet.store.down = "connection refused".into();
    fleet.pass(Duration::from_secs(18));
    assert!(fleet.connection().connected);
    let troubles =
        |fleet: &Fleet| fleet.reports.iter().filter(|one| matches!(one, Report::Trouble(_))).count();
    assert_eq!(troubles(&fleet), 1);
    fleet.store.down.clear();
    fleet.pass(Duration::from_secs(15));
    assert!(fleet.connection().connected && fleet.changes().is_empty());
    fleet.store.down = "connection refused".into();
    let confirmed = fleet.connection().last_confirmed.unwrap();
    fleet.pass(Duration::from_secs(31));
    let lost = fleet.connection();
    assert!(!lost.connected && lost.last_confirmed.unwrap().seconds >= confirmed.seconds);
    assert_eq!(lost.since.unwrap().seconds, lost.last_confirmed.unwrap().seconds + 30);
    assert_eq!(troubles(&fleet), 2);
}

#[test]
fn each_failure_waits_longer_and_asks_the_next_member() {
    let mut fleet = registered(&[]);
    fleet.store.down = "connection refused".into();
    fleet.pass(Duration::from_secs(600));
    let count = fleet.steps().split(' ').filter(|step| *step == "Connect!").count();
    // A wait of 7.5 s on average.
    assert!((50..=140).contains(&count), "{count}");
}

#[test]
fn a_store_that_refuses_keeps_its_connection_for_a_while() {
    let mut fleet = registered(&["a"]);
    fleet.store.refusals = 1;
    fleet.register("b", "web");
    fleet.pass(2 * SECOND);
    assert_eq!(fleet.steps(), "Commit! Look Commit");
    assert_eq!(
        (fleet.changes(), fleet.state("b").problem.as_str()),
        (vec![format!("put {}", key("b", "web"))], "")
    );
    fleet.store.refusals = 2;
    fleet.register("c", "web");
    fleet.pass(5 * SECOND);
    assert_eq!(fleet.steps(), "Commit! Look! Connect Look Commit");
    // A lease is renewed in time, whatever else is refused.
    fleet.store.is_full = true;
    fleet.register("d", "web");
    fleet.changes();
    fleet.pass(Duration::from_secs(300));
    let count = fleet.steps().split(' ').filter(|step| *step == "Renew").count();
    assert!(count > 15 && fleet.changes().is_empty() && fleet.connection().connected, "{count}");
}

#[test]
fn a_host_that_is_cut_off_for_half_its_time_stays_registered() {
    for number in 0..100 {
        let mut fleet = registered(&["a"]);
        fleet.pass(Duration::from_millis(110 * number));
        fleet.store.down = "connection refused".into();
        fleet.pass(Duration::from_secs(15));
        fleet.store.down.clear();
        fleet.pass(Duration::from_secs(30));
        assert!(fleet.changes().is_empty() && fleet.connection().connected, "{number}");
    }
}

#[test]
fn the_second_host_of_a_name_is_refused_until_the_first_is_gone() {
    let mut fleet = Fleet::with(registered(&["a"]).store, "id-2", None);
    fleet.register("b", "web");
    let refused = fleet.connection();
    let problem = "the name edge-1 is taken by another host (id id-1, since 2023-11-14T22:30:00Z)";
    assert_eq!((refused.connected, refused.problem.as_str(), refused.lease), (false, problem, 0));
    assert_eq!(fleet.state("b").problem, problem);
    fleet.remove("b", 3);
    assert_eq!(fleet.removed(3), Some(""));
    fleet.register("b", "web");
    assert_eq!(fleet.steps(), "Connect Look");
    fleet.pass(Duration::from_secs(25));
    assert_eq!(fleet.steps(), "Look Look");
    assert!(fleet.changes().is_empty());
    // The lease of the first ends.
    fleet.pass(Duration::from_secs(20));
    assert!(fleet.connection().connected);
    assert_eq!(fleet.changes()[2..], [format!("put {HOST}"), format!("put {}", key("b", "web"))]);
}

#[test]
fn of_two_that_register_at_the_same_time_one_wins() {
    let mut fleet = Fleet::new();
    fleet.store.delete(HOST);
    fleet.store.put(HOST, r#"{"id":"id-2"}"#, 0);
    fleet.send(Command::Health(healthy()));
    assert!(fleet.steps().ends_with("Commit Look Revoke Look"));
    assert!(fleet.connection().problem.contains("(id id-2, since )"), "{:?}", fleet.connection());
    fleet.store.delete(HOST);
    fleet.store.put(HOST, "what?", 0);
    fleet.pass(Duration::from_secs(12));
    assert!(fleet.connection().problem.contains("has a value of another program"));
}

#[test]
fn the_same_host_adopts_what_it_registered_before_a_reboot() {
    let mut fleet = Fleet::with(registered(&["a", "b"]).store, "id-1", None);
    assert!(fleet.connection().connected);
    fleet.register("a", "web");
    fleet.send(Command::Complete(true));
    let keys =
        [format!("put {HOST}"), format!("put {}", key("a", "web")), format!("delete {}", key("b", "web"))];
    assert_eq!(fleet.changes(), keys);
    fleet.pass(Duration::from_secs(60));
    assert!(fleet.changes().is_empty());
}

#[test]
fn a_removal_is_answered_within_its_time() {
    let mut fleet = registered(&["a", "b"]);
    fleet.remove("a", 1);
    fleet.remove("other", 2);
    assert_eq!((fleet.removed(1), fleet.removed(2)), (Some(""), Some("")));
    assert_eq!(fleet.state("a").state, "absent");
    fleet.store.down = "connection refused".into();
    fleet.pass(Duration::from_secs(12));
    fleet.remove("b", 3);
    assert_eq!((fleet.removed(3), fleet.state("b").state.as_str()), (None, "removing"));
    fleet.pass(Duration::from_secs(5));
    let problem = fleet.removed(3).unwrap();
    assert!(problem.contains("has not confirmed it") && problem.contains("connection refused"), "{problem}");
    // It stays wanted.
    fleet.store.down.clear();
    fleet.pass(Duration::from_secs(15));
    assert_eq!(fleet.changes().last().unwrap(), &format!("delete {}", key("b", "web")));
    assert_eq!(fleet.state("b").state, "absent");
}

#[test]
fn a_service_may_come_back_before_its_removal_is_confirmed() {
    let mut fleet = registered(&["a"]);
    fleet.store.down = "connection refused".into();
    fleet.pass(Duration::from_secs(12));
    fleet.remove("a", 1);
    fleet.register("a", "web");
    assert_eq!(fleet.removed(1), Some("the service is to be registered again"));
    fleet.store.down.clear();
    fleet.pass(Duration::from_secs(15));
    assert_eq!((fleet.changes(), fleet.state("a").state.as_str()), (vec![], "registered"));
}

#[test]
fn a_change_that_may_have_been_done_is_looked_at() {
    let mut fleet = registered(&["a"]);
    fleet.store.late = true;
    fleet.register("b", "web");
    assert_eq!(fleet.steps(), "Commit!");
    fleet.remove("b", 1);
    assert_eq!(fleet.removed(1), Some(""));
    assert_eq!(fleet.steps(), "Connect Look Commit");
    assert_eq!(fleet.changes(), [format!("put {}", key("b", "web")), format!("delete {}", key("b", "web"))]);
}

#[test]
fn a_change_that_is_done_late_is_waited_for() {
    let mut fleet = registered(&["a"]);
    fleet.store.stalls = true;
    fleet.register("b", "web");
    assert_eq!(fleet.steps(), "Commit!");
    fleet.remove("b", 1);
    assert_eq!(fleet.removed(1), Some(""));
    assert_eq!(fleet.changes(), [format!("put {}", key("b", "web")), format!("delete {}", key("b", "web"))]);
    fleet.store.stalls = true;
    fleet.register("c", "web");
    fleet.pass(SECOND * 20);
    assert_eq!(
        (fleet.changes(), fleet.state("c").state.as_str()),
        (vec![format!("put {}", key("c", "web"))], "registered")
    );
}

#[test]
fn a_full_store_still_removes() {
    let mut fleet = registered(&["a", "b"]);
    fleet.store.is_full = true;
    fleet.register("c", "web");
    fleet.pass(SECOND);
    assert!(fleet.state("c").problem.contains("space exceeded"));
    fleet.remove("b", 1);
    assert_eq!(fleet.changes(), [format!("delete {}", key("b", "web"))]);
    assert_eq!(fleet.removed(1), Some(""));
    fleet.pass(Duration::from_secs(300));
    assert!(fleet.connection().connected && fleet.connection().problem.is_empty());
    assert_eq!(fleet.state("a").state, "registered");
    fleet.store.is_full = false;
    fleet.pass(Duration::from_secs(20));
    assert_eq!((fleet.state("c").state.as_str(), fleet.state("c").problem.as_str()), ("registered", ""));
}

#[test]
fn an_address_is_found_again_with_each_connection() {
    let mut fleet = registered(&["a"]);
    let services = [("b", "192.0.2.7")].map(|(service, address)| FleetRegister {
        service: service.into(),
        name: "web".into(),
        address: address.into(),
        ..FleetRegister::default()
    });
    services.into_iter().for_each(|service| fleet.send(Command::Register(service)));
    fleet.changes();
    fleet.store.down = "connection reset by peer".into();
    fleet.pass(Duration::from_secs(12));
    fleet.address = Ipv4Addr::new(10, 0, 0, 2).into();
    fleet.store.down.clear();
    fleet.pass(Duration::from_secs(10));
    assert_eq!(fleet.changes(), [format!("put {HOST}"), format!("put {}", key("a", "web"))]);
    assert_eq!((fleet.state("a").address, fleet.state("b").address), ("10.0.0.2".into(), "192.0.2.7".into()));
}

#[test]
fn a_host_that_leaves_takes_all_its_keys() {
    let mut fleet = registered(&["a", "b"]);
    fleet.send(Command::Leave(true));
    assert_eq!(fleet.steps(), "Revoke");
    assert_eq!(fleet.removed(0), Some(""));
    assert!(fleet.store.values.is_empty() && !fleet.connection().connected);
    fleet.register("c", "web");
    fleet.pass(Duration::from_secs(60));
    assert!(fleet.store.values.is_empty());
    assert_eq!(fleet.removed(0), Some(""));
}

#[test]
fn a_host_leaves_although_the_store_is_gone() {
    let mut fleet = registered(&["a"]);
    fleet.store.down = "connection refused".into();
    fleet.send(Command::Leave(true));
    assert_eq!(fleet.removed(0), None);
    fleet.pass(Duration::from_secs(5));
    assert!(fleet.removed(0).unwrap().contains("connection refused"));
    fleet.store.down.clear();
    fleet.pass(Duration::from_secs(15));
    assert!(fleet.store.values.is_empty());
}

#[test]
fn another_name_of_the_host_moves_its_keys() {
    let before = registered(&["a"]);
    let lease = before.core.lease();
    let mut fleet = Fleet::named("edge-2", before.store, "id-1", lease);
    fleet.register("a", "web");
    fleet.send(Command::Complete(true));
    let moved = |key: &str| key.replace("edge-1", "edge-2");
    let web = key("a", "web");
    let (puts, deletes) = ([moved(HOST), moved(&web)], [HOST, &web]);
    let changes = [puts.map(|key| format!("put {key}")), deletes.map(|key| format!("delete {key}"))];
    assert_eq!(fleet.changes(), changes.concat());
}

#[test]
fn a_host_without_a_name_waits() {
    let mut fleet = Fleet::named("(none)", Store::default(), "id-1", None);
    fleet.pass(Duration::from_secs(60));
    assert_eq!(fleet.steps(), "");
    assert!(fleet.connection().problem.contains("\"(none)\" is no name"), "{:?}", fleet.connection());
}
