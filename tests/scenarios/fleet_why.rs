//! Why hosts of a fleet are not healthy, asked of one of them.

use kelson_tests::{Etcd, Host, HostBuilder, eventually};
use serde_json::{Value, json};

const HOSTS: usize = 1000;
const CAUSES: usize = 20;

fn member(name: &str, endpoint: &str) -> HostBuilder {
    Host::builder()
        .machine(&format!("fleet: {{endpoints: ['{endpoint}'], name: {name}, labels: {{role: edge}}}}"))
}

/// What the store has of a host.
fn entry(etcd: &Etcd, name: &str) -> Value {
    serde_json::from_str(&etcd.value(&format!("/kelson/v1/hosts/{name}"))).unwrap_or_default()
}

#[test]
fn a_host_names_the_cause_of_another() {
    let Some(etcd) = Etcd::start() else { return };
    let mut well = member("edge-1", &etcd.endpoint()).runs("web", "serve").up(&["web"]);
    let mut sick = member("edge-2", &etcd.endpoint())
        .runs_with("db", "exit=3", "restart: {policy: forever, delay: 1h, maxDelay: 1h}")
        .runs_with("web", "serve", "depends: [{service: db}]")
        .start();
    let cause = json!([{"service": "db", "cause": "exited with status 3"}]);
    eventually("the cause to be in the store", || entry(&etcd, "edge-2")["causes"] == cause);
    well.ctl(&["health", "--wait"]).ok();
    eventually("the other to be healthy", || entry(&etcd, "edge-1")["health"] == "healthy");
    assert_eq!(entry(&etcd, "edge-1")["causes"], Value::Null);

    let why: Value = well.ctl(&["fleet", "why", "-o", "json"]).json();
    assert_eq!(
        why["causes"],
        json!([{"cause": "exited with status 3", "count": 1, "services": ["db"], "hosts": ["edge-2"]}]),
        "{why}"
    );
    let text = well.ctl(&["fleet", "why"]).ok().stdout;
    assert!(text.starts_with("1 of 2 hosts not healthy\n"), "{text}");
    assert!(text.contains("1  exited with status 3  db        edge-2"), "{text}");
    assert!(well.ctl(&["fleet", "health"]).expect(1).stdout.contains("db: exited with status 3"));
    assert!(well.ctl(&["fleet", "health", "edge-1"]).ok().stdout.contains("1 host: 1 healthy"));
    assert!(well.ctl(&["fleet", "versions"]).ok().stdout.contains("edge-1, edge-2"));

    // Another PID 1 says the same of the same truth.
    let before = entry(&etcd, "edge-2");
    let revision = |key: &str| {
        etcd.ctl(&["get", key, "-w", "fields"])
            .lines()
            .find(|line| line.starts_with("\"ModRevision"))
            .map(str::to_owned)
    };
    let revision = || revision("/kelson/v1/hosts/edge-2");
    let at = revision();
    sick.ctl(&["reexec"]).ok();
    eventually("the host to be connected again", || {
        let status: Value = sick.ctl(&["fleet", "status", "-o", "json"]).json();
        status["connected"] == true
    });
    assert_eq!((entry(&etcd, "edge-2"), revision()), (before, at));

    sick.poweroff();
    let why: Value = well.ctl(&["fleet", "why", "-o", "json"]).json();
    assert_eq!((&why["hosts"], &why["healthy"], &why["causes"]), (&json!(1), &json!(1), &json!([])), "{why}");
    well.poweroff();
}

/// A host as its helper writes it: every second one is healthy.
fn simulated(number: usize) -> (String, String) {
    let (cause, is_sick) = (number / 2 % CAUSES, number % 2 == 1);
    let mut entry = json!({
        "id": number.to_string(), "bootId": "b", "version": "0.4.0", "addresses": ["192.0.2.1"],
        "health": if is_sick { "unhealthy" } else { "healthy" },
        "labels": {"role": if number < HOSTS / 2 { "edge" } else { "core" }}, "since": "2026-11-28T16:20:07Z",
    });
    if is_sick {
        entry["causes"] = json!([{"service": format!("s{cause}"), "cause": format!("reason {cause}")}]);
    }
    (format!("/kelson/v1/hosts/host-{number:04}"), entry.to_string())
}

#[test]
fn twenty_causes_of_a_thousand_hosts_are_one_answer() {
    let Some(etcd) = Etcd::start() else { return };
    let mut hosts: Vec<(String, String)> = (0..HOSTS).map(simulated).collect();
    hosts.push(("/kelson/v1/hosts/strange".to_owned(), "no JSON".to_owned()));
    let service = json!({"address": "192.0.2.1", "port": 80, "since": "2026-11-28T16:20:07Z"}).to_string();
    hosts.push(("/kelson/v1/services/web/gone-1/nginx".to_owned(), service.clone()));
    hosts.push(("/kelson/v1/services/web/host-0000/nginx".to_owned(), service));
    etcd.put_all(&hosts);
    let mut host = member("edge-1", &etcd.endpoint()).runs("web", "serve").up(&["web"]);
    eventually("the host to be registered", || entry(&etcd, "edge-1")["health"] == "healthy");

    let began = std::time::Instant::now();
    let why: Value = host.ctl(&["fleet", "why", "-o", "json"]).json();
    println!("fleet why over {HOSTS} hosts: {} ms", began.elapsed().as_millis());
    assert_eq!((&why["hosts"], &why["healthy"]), (&json!(HOSTS + 2), &json!(HOSTS / 2 + 1)), "{why}");
    let causes = why["causes"].as_array().expect("a list");
    assert_eq!(causes.len(), CAUSES);
    for cause in causes {
        let number = cause["cause"].as_str().and_then(|text| text.strip_prefix("reason ")).expect("a cause");
        assert_eq!((&cause["count"], &cause["services"]), (&json!(25), &json!([format!("s{number}")])));
        assert_eq!(cause["hosts"].as_array().map(Vec::len), Some(25));
    }
    assert_eq!(why["unreadable"][0]["name"], "strange");
    assert_eq!(why["gone"], json!([{"name": "gone-1", "services": ["web"]}]));
    let text = host.ctl(&["fleet", "why"]).ok().stdout;
    assert_eq!(text.lines().count(), 2 + CAUSES + 2, "{text}");

    let why: Value = host.ctl(&["fleet", "why", "host-*", "-l", "role=core", "-o", "json"]).json();
    assert_eq!((&why["hosts"], &why["causes"][0]["count"]), (&json!(500), &json!(13)), "{why}");
    let health: Value = host.ctl(&["fleet", "health", "-o", "json"]).expect(1).json();
    assert_eq!((&health["unhealthy"], &health["unknown"]), (&json!(500), &json!(1)));
    host.poweroff();
}
