//! A compose file of an application, translated and run: health, dependencies, names, volumes.

use std::fs;
use std::path::Path;
use std::process::Command;

use kelson_tests::namespace::Namespace;
use kelson_tests::{Host, paths};

use super::network::wait_for_mirrors;
use super::{host, runtime, test_image};

const FILE: &str = "
name: shop
services:
  web:
    image: test:1
    command: [ask=store:80, serve]
    ports: ['8080:80']
    depends_on:
      migrate: {condition: service_completed_successfully}
      store: {condition: service_healthy, restart: true}
    restart: unless-stopped
  store:
    image: test:${TAG}
    environment: {ROLE: '${ROLE:-store}'}
    entrypoint: /program report wait-path=/data/go mirror=80
    volumes: [./data:/data]
    healthcheck: {test: [CMD, /program, end-if=/data/healthy, exit=1], interval: 50ms, retries: 1}
  migrate:
    image: test:1
    command: [append=/data/done]
    volumes: [./data:/data]
    depends_on: [store]
";

/// The service files that become of the file, with their names.
fn translated(folder: &Path) -> Vec<(String, String)> {
    fs::write(folder.join("compose.yaml"), FILE).expect("a writable folder");
    fs::write(folder.join(".env"), "TAG=1\n").expect("a writable folder");
    let mut command = Command::new(paths::binary("kelsonctl"));
    let out = folder.join("services");
    command.args(["import", "compose", "--out"]).arg(&out).arg(folder.join("compose.yaml"));
    let done = command.output().expect("kelsonctl runs");
    assert_eq!(String::from_utf8_lossy(&done.stderr), "", "nothing is lost");
    assert!(done.status.success());
    ["web", "store", "migrate"]
        .map(|name| {
            let text = fs::read_to_string(out.join(format!("{name}.yaml"))).expect("it was written");
            let text = text.strip_prefix(&format!("name: {name}\n")).expect("it begins with its name");
            let own = match runtime() {
                "" => text.to_owned(),
                _ => text.replacen("container:\n", "container:\n  runtime: kelson\n", 1),
            };
            (name.to_owned(), own)
        })
        .into()
}

both!(an_application_of_compose_runs);
fn an_application_of_compose_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a writable folder");
    let alone = Namespace::new();
    alone.ip("link set lo up");
    let mut builder = host(&[test_image()]).network(&alone);
    for (name, file) in translated(folder.path()) {
        builder = builder.service(&name, &file);
    }
    let mut host: Host = builder.start();
    host.wait_up("migrate");
    let status = |service: &str| host.service(service);
    assert_eq!(status("store").state, "running");
    assert_eq!(status("web").state, "waiting", "store is not healthy yet");
    assert_eq!(fs::read_to_string(data.join("done")).expect("migrate has run").lines().count(), 1);
    fs::write(data.join("go"), "").expect("a writable folder");
    wait_for_mirrors(&host, &["store"]);
    fs::write(data.join("healthy"), "").expect("a writable folder");
    host.wait_up("web");
    // By its name, and with its environment.
    let of_web: serde_json::Value = host.ctl(&["status", "web", "-o", "json"]).ok().json();
    let address = of_web["addresses"][0].as_str().expect("an address").to_owned();
    assert!(host.wait_log("web", &address).contains(&address));
    assert!(host.wait_log("store", "env.ROLE").contains("env.ROLE store"));
    host.poweroff();
}
