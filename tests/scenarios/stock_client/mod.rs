//! A stock gRPC client (Python's grpcio with reflection, no generated code of ours) lists the services and follows
//! the events.

use std::process::Command;

use kelson_tests::{Host, Lines, PATIENCE, paths};

#[test]
fn python_lists_the_services_and_follows_the_events() {
    let mut host = Host::builder().service("web", "process: {command: [$PROGRAM, serve]}").start();
    host.wait_up("web");
    let python = paths::top().join("out/venv/bin/python");
    assert!(python.exists(), "{} is missing: run hack/deps", python.display());
    let mut command = Command::new(python);
    command.arg(paths::top().join("tests/scenarios/stock_client/client.py")).arg(host.path("run/init.sock"));
    let mut client = Lines::of(command, "client.py");
    client.find(r#"{"health": "SERVING"}"#, PATIENCE);
    let services = client.find("services", PATIENCE);
    assert!(services.contains(r#""web""#), "{services}");
    client.find(r#""service": "web", "state": "STATE_RUNNING""#, PATIENCE);

    host.ctl(&["restart", "web"]).ok();
    client.find(r#""service": "web", "state": "STATE_STOPPING""#, PATIENCE);
    client.find(r#""service": "web", "state": "STATE_RUNNING""#, PATIENCE);
    host.poweroff();
}
