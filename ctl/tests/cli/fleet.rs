//! What a host registers, and the fleet that it belongs to.

use std::collections::HashMap;

use kelson_proto::v1::{
    FleetCause, FleetConnection, FleetHost, FleetInstance, FleetMembership, FleetPlanPart, FleetRegistration,
    Reason, State as ServiceState,
};

use crate::fake::{Fake, Registered, State};
use crate::nodes::Fleet;
use crate::samples::at;
use crate::streams::Following;
use crate::two;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn map(of: &[(&str, &str)]) -> HashMap<String, String> {
    of.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn registration(service: &str, up: bool, state: &str, problem: &str) -> FleetRegistration {
    FleetRegistration {
        service: service.to_owned(),
        name: service.to_owned(),
        port: 5432,
        tags: words(&["primary", "v15"]),
        address: "192.0.2.7".to_owned(),
        meta: map(&[("shard", "3")]),
        up,
        state: state.to_owned(),
        problem: problem.to_owned(),
    }
}

fn registrations() -> Vec<FleetRegistration> {
    let silent = FleetRegistration {
        name: "cron-jobs".to_owned(),
        port: 0,
        tags: Vec::new(),
        address: String::new(),
        ..registration("cron", false, "absent", "")
    };
    let late = "https://a:2379 did not answer within 5 s; the helper tries again in 2 s";
    vec![silent, registration("db", true, "registered", ""), registration("web", true, "registering", late)]
}

fn membership() -> FleetMembership {
    FleetMembership {
        name: "edge-1".to_owned(),
        prefix: "/kelson/v1".to_owned(),
        endpoints: words(&["https://a:2379", "https://b:2379"]),
        labels: map(&[("role", "edge"), ("site", "fra")]),
        connection: Some(FleetConnection {
            connected: true,
            since: at(7_226_582_400),
            last_confirmed: at(7_226_582_410),
            problem: String::new(),
            lease: 0x694d_77aa_0000_0033,
            id: "5c0f9d".to_owned(),
            ..FleetConnection::default()
        }),
    }
}

fn hosts() -> Vec<FleetHost> {
    let host = |name: &str, health: &str, labels: &[(&str, &str)]| FleetHost {
        name: name.to_owned(),
        id: "5c0f9d".to_owned(),
        boot_id: "b00".to_owned(),
        version: "7.8.9".to_owned(),
        health: health.to_owned(),
        addresses: words(&["192.0.2.7", "2001:db8::7"]),
        labels: map(labels),
        since: at(1_795_254_485),
        facts: map(&[("platform", "qemu")]),
        problem: String::new(),
        causes: Vec::new(),
    };
    let strange = FleetHost {
        name: "strange".to_owned(),
        problem: "its value is no JSON of a host: delete /kelson/v1/hosts/strange".to_owned(),
        ..FleetHost::default()
    };
    vec![
        host("edge-1", "healthy", &[("role", "edge"), ("site", "fra")]),
        host("edge-2", "unhealthy", &[("role", "edge"), ("site", "ams")]),
        host("lab", "pending", &[("role", "lab")]),
        host("old.lan", "", &[]),
        strange,
    ]
}

fn instances() -> Vec<FleetInstance> {
    let instance = |name: &str, host: &str, tags: &[&str]| FleetInstance {
        name: name.to_owned(),
        host: host.to_owned(),
        service: "db".to_owned(),
        address: "192.0.2.7".to_owned(),
        port: 5432,
        tags: words(tags),
        meta: map(&[("shard", "3")]),
        since: at(1_795_254_485),
        problem: String::new(),
    };
    let bare = FleetInstance { port: 0, meta: HashMap::new(), ..instance("cron-jobs", "edge-1", &[]) };
    let strange = FleetInstance {
        name: "web".to_owned(),
        host: "strange".to_owned(),
        service: "web".to_owned(),
        problem: "its value is no JSON of a service: delete /kelson/v1/services/web/strange/web".to_owned(),
        ..FleetInstance::default()
    };
    vec![
        bare,
        instance("postgres", "edge-1", &["primary", "v15"]),
        instance("postgres", "edge-2", &["replica", "v15"]),
        strange,
    ]
}

fn member() -> State {
    let fleet = Registered {
        registrations: registrations(),
        membership: Some(membership()),
        hosts: hosts(),
        instances: instances(),
        ..Registered::default()
    };
    State { fleet, ..two() }
}

#[test]
fn the_registry_and_the_fleet() {
    Fake::start(member()).transcript("fleet");
}

/// A fleet in which some hosts have causes.
fn sick() -> State {
    let causes = |of: &[(&str, &str)]| {
        let one = |&(service, cause): &(&str, &str)| FleetCause {
            service: service.to_owned(),
            cause: cause.to_owned(),
        };
        of.iter().map(one).collect::<Vec<_>>()
    };
    let mut state = member();
    let expired = "preparing failed: registry.example: certificate expired";
    for (name, version, causes) in [
        ("edge-3", "7.8.9", causes(&[("web", expired)])),
        ("edge-4", "7.8.8", causes(&[("db", "disk full: /var/lib/db"), ("web", expired)])),
        (
            "edge-5",
            "7.8.9",
            causes(&[("api", expired), ("web", expired), ("", "/etc/kelson: no such folder")]),
        ),
        ("edge-6", "7.8.9", causes(&[("web", expired)])),
    ] {
        let [_, like, ..] = &hosts()[..] else { panic!("five hosts") };
        let (name, version) = (name.to_owned(), version.to_owned());
        state.fleet.hosts.push(FleetHost { name, version, causes, ..like.clone() });
    }
    state.fleet.hosts.sort_by(|one, other| one.name.cmp(&other.name));
    let [first, ..] = &instances()[..] else { panic!("four services") };
    let left = FleetInstance { host: "lost".to_owned(), ..first.clone() };
    state.fleet.instances.insert(1, left);
    state
}

#[test]
fn hosts_are_grouped_by_cause() {
    let fake = Fake::start(sick());
    fake.transcript("fleet-causes");
    fake.change(|state| state.fleet.hosts.retain(|host| host.name == "edge-1"));
    fake.change(|state| state.fleet.instances.retain(|one| one.host == "edge-1"));
    fake.transcript("fleet-well");
}

/// The first part of a plan, and its hosts.
fn plan(name: &str, action: &str, state: &str, claim: &str, hosts: &str) -> [FleetPlanPart; 2] {
    let head = format!(
        r#"{{"action":{action},"healthyFor":1000,"deadline":2000,"maxFailed":0,"waves":[[1,1],[2,1]],"state":"{state}","done":1,
            "failed":0,"by":"ann@desk","began":1795254485,"claim":{claim}}}"#
    );
    let part = |part, value: String| FleetPlanPart {
        host: "edge-1".to_owned(),
        name: name.to_owned(),
        part,
        revision: 7,
        value: value.into_bytes(),
    };
    [part(0, head), part(1, hosts.to_owned())]
}

#[test]
fn plans_of_actions_on_many_hosts() {
    let restart = r#"{"restart":["web","db"]}"#;
    let claim = |until: i64| format!(r#"{{"id":"1","who":"bob@lab","until":{until}}}"#);
    let mut state = member();
    let hosts = r#"[["edge-1","done",""],["edge-2","running","7"],["lab","pending",""]]"#;
    let apply = r#"{"apply":{"path":"/nowhere/config","digest":"00"}}"#;
    state.fleet.plans.extend(plan("busy", restart, "running", &claim(1_795_254_601), hosts));
    state.fleet.plans.extend(plan("broken", restart, "running", &claim(1_795_254_599), hosts));
    state.fleet.plans.extend(plan("late", apply, "stopped", "null", hosts));
    state.fleet.plans.extend(plan("odd", "7", "done", "null", "[]"));
    Fake::start(state).transcript("fleet-plans");
}

#[test]
fn waves_of_hosts() {
    let fake = Fake::start(member());
    fake.transcript("fleet-waves");
}

#[test]
fn no_fleet() {
    Fake::start(two()).transcript("fleet-none");
}

#[test]
fn a_host_that_sends_one_page_for_ever() {
    let fake = Fake::start(member());
    fake.change(|state| state.fleet.stuck = true);
    fake.transcript("fleet-stuck");
}

#[test]
fn why_tells_of_a_registration() {
    let running = |subject: &str| Reason {
        subject: subject.to_owned(),
        state: ServiceState::Running.into(),
        holds: true,
        ..Reason::default()
    };
    let fake = Fake::start(State { why: running("service \"web\""), ..member() });
    fake.transcript("fleet-why");
}

#[test]
fn fleets_are_compared() {
    let lost = FleetConnection {
        connected: false,
        problem: "https://a:2379: connection refused".to_owned(),
        since: at(7_226_582_400),
        ..FleetConnection::default()
    };
    let mut other = member();
    other.fleet.membership =
        Some(FleetMembership { name: "edge-2".to_owned(), connection: Some(lost), ..membership() });
    Fleet::new(vec![("a", member()), ("b", other)]).transcript("fleet-nodes");
}

#[test]
fn the_dashboard_shows_the_fleet_again_and_again() {
    let mut state = member();
    let claim = r#"{"id":"1","who":"bob@lab","until":1795254601}"#;
    let hosts = r#"[["edge-1","done",""],["edge-2","running","7"]]"#;
    state.fleet.plans.extend(plan("busy", r#"{"restart":["web"]}"#, "running", claim, hosts));
    state.fleet.plans.extend(plan("past", r#"{"restart":["web"]}"#, "done", "null", hosts));
    let fake = Fake::start(state);
    let mut following = Following::new(&fake, "fleet dashboard --interval 100ms");
    let mut until = |words: &str| {
        let lines: Vec<String> = std::iter::from_fn(|| Some(following.line())).take(100).collect();
        lines.into_iter().find(|line| line.contains(words)).unwrap_or_else(|| panic!("no {words}"))
    };
    until("5 hosts: 1 healthy, 1 pending, 1 unhealthy, 2 unknown");
    until("4 of 5 hosts not healthy");
    until("7.8.9");
    assert!(until("restart web").starts_with("busy"));
    fake.change(|state| state.fleet.hosts.truncate(1));
    until("1 host: 1 healthy");
    following.child.kill().unwrap();
    following.child.wait().unwrap();
}
