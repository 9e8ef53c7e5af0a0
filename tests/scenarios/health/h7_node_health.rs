//! H7: the host is healthy once all is up at the same time for the minimum; a deadline names who is not.

use kelson_tests::Host;
use serde_json::Value;

/// How the host is; `told` is the exit status with which `kelsonctl` says so.
#[track_caller]
fn health(host: &Host, words: &[&str], told: i32) -> Value {
    host.ctl(&[&["health", "-o", "json"], words].concat()).expect(told).json()
}

#[track_caller]
fn culprits(health: &Value) -> Vec<&str> {
    let culprits = health["culprits"].as_array().expect("a list");
    culprits.iter().map(|culprit| culprit["service"].as_str().expect("a name")).collect()
}

#[test]
fn h7_all_at_the_same_time_for_the_minimum_and_a_deadline_that_names_culprits() {
    let mut host = Host::builder()
        .machine("health: {minimum: 1s, deadline: 4s}")
        .runs_with("db", "serve", "group: shop\nrestart: {delay: 500ms}")
        .service("migrate", "process: {command: [$PROGRAM]}\ntype: oneshot")
        .runs_with("web", "serve", "depends: [{path: $DIR/flag}]")
        .runs_with("extra", "exit=1", "required: false\nrestart: {policy: once}")
        .runs_with("idle", "serve", "start: manual")
        .start();
    let now = health(&host, &[], 1);
    assert_eq!(now["state"], "pending", "{now}");
    assert!(culprits(&now).contains(&"web"), "{now}");

    // The deadline passes; the group alone is well.
    let failed = health(&host, &["--wait"], 1);
    assert_eq!((&failed["state"], culprits(&failed)), (&"failed".into(), vec!["web"]), "{failed}");
    let reason = failed["culprits"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("waiting for path") && reason.contains("flag"), "{failed}");
    assert_eq!(health(&host, &["shop"], 0)["state"], "healthy");
    let table = host.ctl(&["health"]).expect(1).stdout;
    assert!(table.contains("the host is failed") && table.contains("shop   healthy"), "{table}");
    let said = |text: &'static str| {
        move |event: &kelson_tests::Event| event.service.is_empty() && event.message.starts_with(text)
    };
    let event = host.wait_event(0, "of the failure", said("the host has failed: "));
    assert!(event.message.contains("web: waiting for path"), "{event:?}");

    // It recovers, and breaks, and recovers.
    host.touch("flag");
    let healthy = host.wait_event(event.seq, "of health", said("the host is healthy: "));
    assert_eq!(health(&host, &["--wait"], 0)["culprits"], Value::Array(Vec::new()));
    host.kill(host.pid_of("db"), libc::SIGKILL);
    let broken = host.wait_event(healthy.seq, "of the break", said("the host is unhealthy: "));
    assert!(broken.message.contains("db: killed by SIGKILL"), "{broken:?}");
    assert_eq!(health(&host, &["--wait", "--timeout", "30s"], 0)["state"], "healthy");

    // A service that an operator stops is missed.
    host.ctl(&["stop", "web", "--wait"]).ok();
    let stopped = health(&host, &["--wait", "--timeout", "300ms"], 5);
    assert_eq!((&stopped["state"], culprits(&stopped)), (&"unhealthy".into(), vec!["web"]), "{stopped}");
    let unknown = host.ctl(&["health", "shp"]).expect(1);
    assert!(unknown.stderr.contains("did you mean \"shop\"?"), "{}", unknown.stderr);
    host.poweroff();
}
