//! Tests kelson-fleet against a stand-in for Consul.

use kelson_proto::v1::fleet_command::Command as Order;
use kelson_proto::v1::fleet_report::Report;
use kelson_proto::v1::{FleetInterest, FleetRegister, FleetWanted};
use kelson_spec::fleet::{Consul as Spec, FleetSpec};
use kelson_tests::consul::{ADDRESS, Consul};
use kelson_tests::eventually;
use nix::sys::signal::Signal::{SIGCONT, SIGSTOP};
use serde_json::json;

use crate::host::{Helper, Host, TTL, hosts, instances, register};

const HOST: &str = "kelson/v1/hosts/edge-1";
const WEB: &str = "www:edge-1:web";

fn host(name: &str, consul: &Consul) -> Host {
    let spec = FleetSpec {
        consul: Some(Spec { address: consul.address(), token: None }),
        name: Some(name.to_owned()),
        ..FleetSpec::default()
    };
    Host::of(spec)
}

fn ids(consul: &Consul) -> Vec<String> {
    consul.services().into_keys().collect()
}

fn web() -> FleetRegister {
    let meta = [("on".to_owned(), "${host.name}".to_owned())].into();
    FleetRegister { tags: vec!["blue".into()], meta, ..register("web", "www") }
}

/// One that is registered, with its service.
fn registered(host: &Host) -> Helper {
    let mut helper = host.start_with(&[web()]);
    helper.state("web", "registered");
    helper
}

#[test]
fn consul_has_the_host_and_its_services_until_they_leave() {
    let consul = Consul::start();
    let mut helper = registered(&host("edge-1", &consul));
    assert_eq!((consul.keys(), ids(&consul)), (vec![HOST.to_owned()], vec![WEB.to_owned()]));
    let service = &consul.services()[WEB];
    assert_eq!(
        (&service["Name"], &service["Port"], &service["Tags"], &service["Address"], &service["Meta"]["on"]),
        (&json!("www"), &json!(80), &json!(["blue"]), &json!(ADDRESS), &json!("edge-1"))
    );
    assert!(consul.value(HOST).contains(r#""health":"healthy""#), "{}", consul.value(HOST));
    assert_eq!(helper.remove("web", 1), "");
    assert_eq!((consul.keys(), ids(&consul)), (vec![HOST.to_owned()], vec![]));
    helper.send(Order::Register(web()));
    helper.state("web", "registered");
    helper.send(Order::Leave(true));
    assert_eq!(helper.removed(0), "");
    assert_eq!((consul.keys(), ids(&consul)), (vec![], vec![]));
}

#[test]
fn a_new_helper_changes_nothing() {
    let consul = Consul::start();
    let host = host("edge-1", &consul);
    drop(registered(&host));
    let before = consul.index();
    let mut helper = registered(&host);
    helper.confirmed();
    assert_eq!(consul.index(), before);
}

#[test]
fn a_helper_that_leaves_at_once_removes_what_the_one_before_registered() {
    let consul = Consul::start();
    let host = host("edge-1", &consul);
    drop(registered(&host));
    let helper = host.start();
    helper.send(Order::Leave(true));
    eventually("it to be removed", || consul.keys().is_empty() && consul.services().is_empty());
}

#[test]
fn renewals_change_nothing_and_without_them_all_of_it_ends() {
    let consul = Consul::start();
    let mut helper = registered(&host("edge-1", &consul));
    let before = consul.index();
    std::thread::sleep(TTL * 2);
    assert_eq!(consul.index(), before);
    helper.signal(SIGSTOP);
    eventually("the lease to end", || consul.keys().is_empty() && consul.services().is_empty());
    helper.signal(SIGCONT);
    eventually("it to be back", || consul.keys().len() == 1 && consul.services().len() == 1);
    helper.state("web", "registered");
}

#[test]
fn an_agent_that_is_away_for_a_moment_loses_nothing() {
    let consul = Consul::start();
    let mut helper = registered(&host("edge-1", &consul));
    let before = consul.index();
    consul.set_away(true);
    helper.wait(|report| {
        matches!(report, Report::Trouble(text) if text.contains("Consul at http://127.0.0.1:")).then_some(())
    });
    consul.set_away(false);
    helper.confirmed();
    assert_eq!(consul.index(), before);
}

#[test]
fn what_others_remove_from_the_agent_is_registered_again() {
    let consul = Consul::start();
    let _helper = registered(&host("edge-1", &consul));
    consul.deregister(WEB);
    eventually("it to be registered", || ids(&consul) == [WEB]);
}

#[test]
fn the_second_host_with_a_name_is_refused() {
    let consul = Consul::start();
    let _first = registered(&host("edge-1", &consul));
    let before = consul.index();
    let second = host("edge-1", &consul);
    let mut second = second.start_with(&[register("db", "postgres")]);
    second.problem("the name edge-1 is taken by another host");
    assert_eq!((consul.index(), ids(&consul)), (before, vec![WEB.to_owned()]));
}

#[test]
fn a_call_needs_the_token_of_the_file() {
    let consul = Consul::start();
    consul.set_token("b3f1");
    let mut host = host("edge-1", &consul);
    let mut helper = host.start_with(&[web()]);
    helper.problem("403 Forbidden: Permission denied");
    drop(helper);
    let file = host.path("token");
    host.spec.consul.as_mut().unwrap().token = Some(file.clone());
    let mut helper = host.start_with(&[web()]);
    helper.problem("token: no such file or directory");
    std::fs::write(file, "b3f1\n").unwrap();
    helper.state("web", "registered");
}

#[test]
fn instances_of_all_programs_are_followed() {
    let consul = Consul::start();
    let mut helper = registered(&host("edge-1", &consul));
    let wanted = [("www", "blue"), ("postgres", "")];
    let wanted = wanted.map(|(name, tag)| FleetWanted { name: name.into(), tag: tag.into() });
    helper.send(Order::Interest(FleetInterest { wanted: wanted.into() }));
    let mut found = |name: &str, count: u32| {
        let of = |report: &Report| match report {
            Report::Found(found) if found.wanted.as_ref().is_some_and(|wanted| wanted.name == name) => {
                Some(found.count)
            }
            _ => None,
        };
        eventually(&format!("{count} of {name}"), || {
            helper.drain();
            helper.reports.iter().rev().find_map(of) == Some(count)
        });
    };
    found("www", 1);
    found("postgres", 0);
    consul.register(json!({"ID": "db", "Name": "postgres", "Port": 5432, "Tags": null}));
    found("postgres", 1);
    consul.deregister("db");
    found("postgres", 0);
}

#[test]
fn hosts_and_services_are_listed_in_pages() {
    let consul = Consul::start();
    let mut all: Vec<Helper> =
        ["edge-1", "edge-2", "edge-3"].iter().map(|name| registered(&host(name, &consul))).collect();
    consul.register(json!({"ID": "db", "Name": "postgres", "Port": 5432, "Tags": ["primary"]}));
    let helper = &mut all[0];
    let names = |helper: &mut Helper, number, after: &str| {
        let page = helper.ask(number, hosts(after, 2));
        (page.hosts.into_iter().map(|host| host.name).collect::<Vec<_>>(), page.rest)
    };
    assert_eq!(names(helper, 1, ""), (vec!["edge-1".to_owned(), "edge-2".to_owned()], true));
    assert_eq!(names(helper, 2, "edge-2"), (vec!["edge-3".to_owned()], false));
    let page = helper.ask(3, instances("", "", 2));
    assert_eq!(page.problem, "");
    let places: Vec<(String, String)> = page.instances.into_iter().map(|one| (one.name, one.host)).collect();
    assert_eq!(places, [("postgres".to_owned(), "node-1".to_owned()), ("www".into(), "edge-1".into())]);
    let page = helper.ask(4, instances("", &page.cursor, 500));
    assert_eq!(page.instances.len(), 2);
    assert_eq!(helper.ask(5, instances("www", "", 500)).instances.len(), 3);
}
