//! Volumes of a storage plugin, from the files of the services to the plugin's calls.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use kelson_tests::{Host, PATIENCE, eventually, paths, process, until};

const SOCKET: &str = "/run/kelson/csi/fault/csi.sock";

/// A host with a plugin with faults on demand, and volumes `data` and `more` of it.
pub fn host(services: &[(&str, &str)]) -> Host {
    let program = paths::binary("kelson-fault-plugin");
    let command = format!("process: {{command: [{}, {SOCKET}, $DIR/plugin]}}", program.display());
    let plugin = format!("{command}\nrestart: {{delay: 100ms}}\nprovides: {{csi: {{id: fault}}}}\n");
    let mut builder = Host::builder().own_folder("/run").service("plugin", &plugin);
    for name in ["data", "more"] {
        builder =
            builder.volume(name, &format!("plugin: fault\nid: id-{name}\ncontext: {{secret: hunter2}}\n"));
    }
    for (name, more) in services {
        builder =
            builder.service(name, &process("'touch=$DIR/data/$NAME', serve", more).replace("$NAME", name));
    }
    builder.start()
}

/// A use of a volume at `/data`.
pub fn uses(volume: &str, more: &str) -> String {
    format!("volumes: [{{name: data, source: {{csi: {volume}}}, target: $DIR/data{more}}}]\n")
}

/// The calls of the plugin that change something, each with the volume.
pub fn calls(host: &Host) -> Vec<String> {
    let text = fs::read_to_string(host.path("plugin/calls")).unwrap_or_default();
    let words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    text.lines()
        .filter(|line| line.contains("tageVolume") || line.contains("ublishVolume"))
        .map(words)
        .collect()
}

/// How many mounts the host has below the folder of the plugin, without that of the folder itself.
pub fn mounts(host: &Host) -> usize {
    let table = fs::read_to_string(format!("/proc/{}/mountinfo", host.init_pid())).expect("it runs");
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    places.filter(|place| place.contains("/csi/fault/")).count()
}

pub fn faults(host: &Host, lines: &str) {
    fs::write(host.path("plugin/faults"), lines).expect("the folder of the plugin");
}

/// What `kelsonctl volumes list` says of each service: service, state.
pub fn listed(host: &Host) -> Vec<(String, String)> {
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&host.ctl(&["volumes", "list", "-o", "json"]).ok().stdout).expect("JSON");
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let mut listed: Vec<_> = rows.iter().map(|row| (text(row, "service"), text(row, "state"))).collect();
    listed.sort();
    listed
}

#[test]
fn v9_services_share_a_stage_where_they_use_a_volume_alike() {
    let alike = uses("data", ", usage: {access: multiNodeMultiWriter}");
    let other = uses("data", ", usage: {access: multiNodeReader}, readOnly: true");
    let mut host = host(&[("a", &alike), ("b", &alike)]);
    host.write_service("c", &process("serve", &other));
    host.ctl(&["reload"]).ok();
    host.wait_all_up(&["plugin", "a", "b", "c"]);
    let count = |call: &str| calls(&host).iter().filter(|line| **line == format!("{call} id-data")).count();
    assert_eq!((count("NodeStageVolume"), count("NodePublishVolume")), (2, 3), "{:?}", calls(&host));
    assert_eq!(mounts(&host), 5);
    for name in ["a", "b"] {
        assert!(host.path(&format!("plugin/volumes/id-data/{name}")).exists(), "{name} writes to the volume");
    }
    let published = |name: &str| (name.to_owned(), "published".to_owned());
    assert_eq!(listed(&host), ["a", "b", "c"].map(published));

    host.ctl(&["stop", "a", "--wait"]).ok();
    assert_eq!(count("NodeUnstageVolume"), 0, "b still uses it");
    host.ctl(&["stop", "b", "--wait"]).ok();
    assert_eq!(count("NodeUnstageVolume"), 1);
    assert_eq!(listed(&host), [published("c")]);

    // V12: the plugin is in use.
    let refused = host.ctl(&["stop", "plugin"]).expect(1);
    assert!(refused.stderr.contains('c'), "{}", refused.stderr);
    host.ctl(&["stop", "plugin", "--cascade", "--wait"]).ok();
    assert_eq!(mounts(&host), 0);
    assert!(listed(&host).is_empty());
    // What the volume has is there.
    assert!(host.path("plugin/volumes/id-data/a").exists());
    host.poweroff();
    let console = host.console();
    assert!(!console.contains("hunter2"), "{console}");
}

#[test]
fn v11_a_claim_outlives_pid_1_the_helper_and_the_plugin() {
    let mut host = host(&[("db", &uses("data", ""))]);
    host.wait_all_up(&["plugin", "db"]);
    let (pid, before) = (host.pid_of("db"), calls(&host));
    assert_eq!(before, ["NodeStageVolume id-data", "NodePublishVolume id-data"]);
    let is_published = || listed(&host) == [("db".to_owned(), "published".to_owned())];
    host.ctl(&["reexec"]).ok();
    assert!(is_published());
    host.crash(|| host.signal(libc::SIGSEGV));
    assert!(is_published());
    let first = host.pid_of("volumes");
    host.ctl(&["restart", "volumes"]).ok();
    host.wait_for("volumes", "another process", |now| now.pid.is_some_and(|pid| pid != first) && now.up);
    let helper = host.pid_of("volumes");
    host.kill(helper, libc::SIGKILL);
    host.wait_for("volumes", "another process", |now| now.pid.is_some_and(|pid| pid != helper) && now.up);
    assert!(is_published());
    let plugin = host.pid_of("plugin");
    host.kill(plugin, libc::SIGKILL);
    host.wait_for("plugin", "another process", |now| now.pid.is_some_and(|pid| pid != plugin) && now.up);
    assert!(is_published());
    assert_eq!((host.pid_of("db"), calls(&host), mounts(&host)), (pid, before, 2), "nothing was asked again");
    host.ctl(&["stop", "db", "--wait"]).ok();
    assert_eq!(mounts(&host), 0);
    assert_eq!(calls(&host)[2..], ["NodeUnpublishVolume id-data", "NodeUnstageVolume id-data"]);
    host.poweroff();
}

#[test]
fn why_names_plugin_step_and_answer() {
    let mut host = host(&[("db", &uses("data", ""))]);
    host.ctl(&["stop", "db", "--wait"]).ok();
    host.wait_up("plugin");
    faults(&host, "NodePublishVolume code 14\n");
    host.ctl(&["start", "db"]).ok();
    let why = |host: &Host| host.ctl(&["why", "db"]).ok().stdout;
    let expected =
        "volume data: NodePublishVolume of plugin fault for id-data: UNAVAILABLE: the test wants it so";
    eventually("the cause", || why(&host).contains(expected));
    // V10: a final answer undoes the steps before, and both failures are reported.
    faults(&host, "NodePublishVolume code 13\nNodeUnstageVolume code 13 1\n");
    host.wait_for("db", "to fail", |now| now.message.contains("INTERNAL"));
    let message = host.service("db").message;
    assert!(message.contains("NodePublishVolume of plugin fault for id-data: INTERNAL"), "{message}");
    assert!(message.contains("NodeUnstageVolume of plugin fault for id-data: INTERNAL"), "{message}");
    faults(&host, "");
    host.wait_up("db");
    let details = host.ctl(&["events", "db", "-o", "json"]).ok().stdout;
    assert!(
        details.contains("\"plugin_id\":\"fault\"") || details.contains("\"plugin_id\": \"fault\""),
        "{details}"
    );
    host.poweroff();
}

#[test]
fn v13_a_plugin_that_hangs_is_named_and_does_not_hold_the_power_off() {
    let mut host = host(&[("db", &uses("data", ""))]);
    host.wait_all_up(&["plugin", "db"]);
    faults(&host, "NodeUnpublishVolume hang\n");
    let began = Instant::now();
    host.ctl(&["poweroff"]).ok();
    host.wait_exit();
    assert!(began.elapsed() < Duration::from_secs(15), "the shutdown has 8 s: {:?}", began.elapsed());
    let console = host.console();
    assert!(
        console.contains("db: stopping - waits for the release of the volumes data of plugin fault"),
        "{console}"
    );
}

#[test]
fn v14_a_socket_of_somebody_else_is_not_used() {
    let mut host = host(&[("db", &uses("data", ""))]);
    host.wait_all_up(&["plugin", "db"]);
    host.ctl(&["stop", "db", "--wait"]).ok();
    // The plugin keeps its socket, but another one has its name by now.
    let path = format!("/proc/{}/root{SOCKET}", host.init_pid());
    fs::remove_file(&path).expect("the socket");
    let _stranger = UnixListener::bind(&path).expect("a socket");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("its owner is root");
    host.ctl(&["reexec"]).ok();
    let before = calls(&host);
    host.ctl(&["start", "db"]).ok();
    let cause = until("the cause", PATIENCE, || {
        let why = host.ctl(&["why", "db"]).ok().stdout;
        (why.contains("plugin")).then_some(why)
    });
    assert!(!host.service("db").up, "{cause}");
    assert_eq!(calls(&host), before, "{cause}");
    host.poweroff();
}
