//! Plugins that come, go, or get a faulty file while their volumes are in use.

use std::fs;

use kelson_tests::{Host, eventually, paths};

use crate::csi::{calls, faults, host, listed, mounts, uses};

fn state(service: &str, state: &str) -> (String, String) {
    (service.to_owned(), state.to_owned())
}

#[test]
fn the_newest_of_two_instances_serves_and_the_other_one_after_it() {
    let plugin = |name: &str, more: &str| {
        let program = paths::binary("kelson-fault-plugin");
        let socket = format!("/run/kelson/csi/fault/{name}.sock");
        format!(
            "process: {{command: [{}, {socket}, $DIR/{name}]}}\nprovides: {{csi: {{id: fault, socket: {name}.sock}}}}\n{more}",
            program.display()
        )
    };
    let user = |volume: &str, more: &str| {
        let volumes = uses(volume, "");
        kelson_tests::process("serve", &format!("{volumes}{more}")).replace("$DIR/data", "/mnt")
    };
    let mut host = Host::builder()
        .own_folder("/run")
        .own_folder("/mnt")
        .service("older", &plugin("older", ""))
        .service("newer", &plugin("newer", "start: manual\n"))
        .volume("data", "plugin: fault\n")
        .volume("more", "plugin: fault\n")
        .service("db", &user("data", ""))
        .service("web", &user("more", "start: manual\n"))
        .start();
    host.wait_all_up(&["older", "db"]);
    host.ctl(&["start", "newer"]).ok();
    host.wait_up("newer");
    host.ctl(&["start", "web"]).ok();
    host.wait_up("web");
    let of = |instance: &str| fs::read_to_string(host.path(instance).join("calls")).unwrap_or_default();
    assert!(
        of("older").contains("NodePublishVolume data") && !of("older").contains("more"),
        "{}",
        of("older")
    );
    assert!(of("newer").contains("NodePublishVolume more"), "{}", of("newer"));
    let pids = [host.pid_of("db"), host.pid_of("web")];
    host.ctl(&["stop", "newer", "--wait"]).ok();
    assert_eq!(listed(&host), [state("db", "published"), state("web", "published")]);
    assert_eq!([host.pid_of("db"), host.pid_of("web")], pids, "one instance is enough");
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert!(of("older").contains("NodeUnpublishVolume more"), "{}", of("older"));
    assert_eq!(listed(&host), [state("db", "published")]);
    // The last one is in use.
    let refused = host.ctl(&["stop", "older"]).expect(1).stderr;
    assert!(refused.contains("db"), "{refused}");
    host.poweroff();
}

#[test]
fn users_of_a_plugin_with_a_faulty_file_go_on() {
    let mut host = host(&[("db", &uses("data", ""))]);
    host.wait_all_up(&["plugin", "db"]);
    let pids = [host.pid_of("plugin"), host.pid_of("db")];
    let file = host.path("config/services/plugin.yaml");
    let before = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, "proces: {}\n").expect("it is writable");
    let reload = host.ctl(&["reload"]);
    let said = reload.stdout + &reload.stderr;
    assert!(said.contains("proces"), "{said}");
    assert_eq!([host.pid_of("plugin"), host.pid_of("db")], pids);
    assert_eq!(listed(&host), [state("db", "published")]);
    // The earlier versions of both files are in use, and start too.
    let restart = host.ctl(&["restart", "db", "--wait"]);
    assert!(restart.stderr.contains("no service without a mistake provides it"), "{}", restart.stderr);
    host.wait_up("db");
    assert_eq!(listed(&host), [state("db", "published")]);
    let restarted = host.pid_of("db");
    fs::write(&file, before).expect("it is writable");
    host.ctl(&["reload"]).ok();
    assert_eq!([host.pid_of("plugin"), host.pid_of("db")], [pids[0], restarted]);
    host.poweroff();
}

#[test]
fn the_helper_stays_until_what_a_plugin_has_left_is_undone() {
    let mut host = host(&[("db", &uses("data", ""))]);
    host.wait_all_up(&["plugin", "db"]);
    faults(&host, "NodeUnstageVolume code 13\n");
    host.ctl(&["stop", "db", "--wait"]);
    let file = |name: &str| host.path(&format!("config/services/{name}.yaml"));
    let plugin = fs::read_to_string(file("plugin")).expect("it is there");
    fs::remove_file(file("db")).expect("it is there");
    fs::remove_file(file("plugin")).expect("it is there");
    host.ctl(&["reload"]).ok();
    eventually("the end of the plugin", || !host.ctl(&["services"]).stdout.contains("plugin"));
    let is_left = || listed(&host) == [state("-", "unstaged")];
    assert!(is_left() && mounts(&host) == 1, "{:?}", listed(&host));
    host.ctl(&["reexec"]).ok();
    eventually("the helper of the next incarnation", is_left);
    faults(&host, "");
    fs::write(file("plugin"), &plugin).expect("it is writable");
    host.ctl(&["reload"]).ok();
    eventually("the end of the volume", || listed(&host).is_empty());
    assert_eq!(
        (mounts(&host), calls(&host).last().map(String::as_str)),
        (0, Some("NodeUnstageVolume id-data"))
    );
    fs::remove_file(file("plugin")).expect("it is there");
    host.ctl(&["reload"]).ok();
    host.wait_for("volumes", "to end: nothing is left", |volumes| volumes.pid.is_none());
    host.poweroff();
}
