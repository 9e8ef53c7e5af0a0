//! A stock gRPC client (Python's grpcio with reflection, no generated code of ours) lists the services and follows
//! the events, on the host and through the remote door with a certificate of `kelsonctl gen`.

use std::ffi::OsString;
use std::process::Command;

use kelson_tests::{Ctl, Host, Lines, PATIENCE, paths, remote};

const WEB: &str = "process: {command: [$PROGRAM, serve]}";

#[test]
fn python_lists_the_services_and_follows_the_events() {
    let mut host = Host::builder().service("web", WEB).up(&["web"]);
    lists_and_follows(&host, &[host.path("run/init.sock").into()]);
    host.poweroff();
}

#[test]
fn python_does_so_from_elsewhere_with_a_certificate_that_kelsonctl_made() {
    let folder = std::env::temp_dir().join(format!("kelson-stock-client-{}", std::process::id()));
    let file = |name: &str| folder.join(name).display().to_string();
    let generate = |words: &[&str]| {
        let done = Command::new(paths::binary("kelsonctl")).arg("gen").args(words).output();
        let done = done.expect("kelsonctl can be started");
        assert!(done.status.success(), "gen {words:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let pki = file("");
    generate(&["ca", "--out", &pki]);
    generate(&["cert", "--ca", &pki, "--server", "--host", "127.0.0.1", "--name", "edge-1", "--out", &pki]);
    generate(&["cert", "--ca", &pki, "--role", "os:reader", "--name", "ann", "--out", &pki]);
    let machine = format!(
        "api: {{listen: ['127.0.0.1:0'], ca: {}, certificate: {}, key: {}}}\n",
        file("ca.pem"),
        file("edge-1.pem"),
        file("edge-1.key")
    );
    let mut host = Host::builder().machine(&machine).service("web", WEB).up(&["web"]);
    let endpoint = format!("127.0.0.1:{}", remote::port(&host));
    let contexts = folder.join("kelsonconfig");
    generate(&[
        "config",
        "--ca",
        &pki,
        "--endpoint",
        &endpoint,
        "--role",
        "os:operator",
        "--out",
        &file("kelsonconfig"),
    ]);
    let away = Ctl::with_config(contexts);
    away.run(&["restart", "--wait", "web"]).ok();
    away.run(&["exec", "web", "--", "/bin/true"]).expect(4);

    let files = ["ca.pem", "ann.pem", "ann.key"].map(|name| folder.join(name).into_os_string());
    lists_and_follows(&host, &[vec![endpoint.into()], files.to_vec()].concat());
    host.poweroff();
    std::fs::remove_dir_all(&folder).expect("the test's folder");
}

/// The client, called with these words.
#[track_caller]
fn lists_and_follows(host: &Host, words: &[OsString]) {
    let python = paths::top().join("out/venv/bin/python");
    assert!(python.exists(), "{} is missing: run hack/deps", python.display());
    let mut command = Command::new(python);
    command.arg(paths::top().join("tests/scenarios/stock_client/client.py")).args(words);
    let mut client = Lines::of(command, "client.py");
    client.find(r#"{"health": "SERVING"}"#, PATIENCE);
    let services = client.find("services", PATIENCE);
    assert!(services.contains(r#""web""#), "{services}");
    client.find(r#""service": "web", "state": "STATE_RUNNING""#, PATIENCE);

    host.ctl(&["restart", "web"]).ok();
    client.find(r#""service": "web", "state": "STATE_STOPPING""#, PATIENCE);
    client.find(r#""service": "web", "state": "STATE_RUNNING""#, PATIENCE);
}
