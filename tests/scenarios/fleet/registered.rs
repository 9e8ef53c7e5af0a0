//! Services that wait for what another host of the fleet registers.

use std::time::Duration;

use kelson_tests::{Etcd, Host, eventually, until};

use super::{member, status};

const DB: &str = "register: {name: postgres, tags: [primary]}";

/// Waits for an event of a service whose message contains this.
fn wait_message(host: &Host, service: &str, text: &str) {
    host.wait_for(service, text, |now| now.message.contains(text));
}

fn needs(more: &str) -> String {
    format!("depends: [{{registered: postgres, tag: primary{more}}}]")
}

/// What the host has done with a service, as events.
fn history(host: &Host, service: &str) -> Vec<String> {
    host.events_of(service).into_iter().map(|event| event.message).collect()
}

#[test]
fn a_service_starts_when_another_host_has_what_it_needs_and_its_rule_says_what_follows() {
    let Some(etcd) = Etcd::start() else { return };
    let mut apps = member("edge-2", &etcd.endpoint())
        .runs_with("own", "serve", "register: {name: cache}\ndepends: [{registered: cache, min: 1}]")
        .runs_with("cache", "serve", "register: {}")
        .runs_with("ignores", "serve", &needs(""))
        .runs_with("stops", "serve", &needs(", whenDown: stop"))
        .runs_with("restarts", "serve", &needs(", whenDown: restart"))
        .start();
    // What the host itself registers counts too.
    apps.wait_up("own");
    wait_message(&apps, "ignores", "waiting for registered postgres with tag primary (0 of 1)");

    let mut dbs = member("edge-1", &etcd.endpoint())
        .runs_with("standby", "serve", "register: {name: postgres, tags: [standby]}")
        .runs_with("db", "serve", &format!("start: manual\n{DB}"))
        .up(&["standby"]);
    let text = "registered postgres with tag primary (0 of 1; 1 without the tag)";
    wait_message(&apps, "restarts", text);
    let why = apps.ctl(&["why", "restarts"]).ok().stdout;
    assert!(why.contains(text), "{why}");
    let link: serde_json::Value = apps.ctl(&["why", "restarts", "-o", "json"]).json();
    assert!(link.to_string().contains(r#""kind":"registered","name":"postgres""#), "{link}");

    dbs.ctl(&["start", "db", "--wait"]).ok();
    apps.wait_all_up(&["ignores", "stops", "restarts"]);
    let runs_on = apps.pid_of("ignores");
    dbs.ctl(&["stop", "db", "--wait"]).ok();
    apps.wait_state("stops", "stopped");
    let missing =
        "registered postgres with tag primary (0 of 1; 1 without the tag), which it needs, is missing";
    assert!(
        history(&apps, "stops").iter().any(|text| text.contains(missing)),
        "{:?}",
        history(&apps, "stops")
    );
    apps.wait_state("restarts", "waiting");
    assert!(apps.service("ignores").up);

    dbs.ctl(&["start", "db", "--wait"]).ok();
    apps.wait_up("restarts");
    assert_eq!((apps.pid_of("ignores"), apps.service("stops").state.as_str()), (runs_on, "stopped"));
    apps.poweroff();
    dbs.poweroff();
}

/// Ends PID 1, and the helper, in each way.
fn disturb(host: &Host) {
    host.ctl(&["reexec"]).ok();
    host.wait_up("fleet");
    host.crash(|| host.signal(libc::SIGSEGV));
    for _ in 0..2 {
        host.wait_up("fleet");
        let helper = host.pid_of("fleet");
        host.kill(helper, libc::SIGKILL);
        host.wait_for("fleet", "another helper", |now| now.up && now.pid.is_some_and(|pid| pid != helper));
    }
}

#[test]
fn neither_a_new_pid_1_nor_a_new_helper_nor_an_absent_store_ends_what_runs() {
    let Some(mut etcd) = Etcd::start() else { return };
    let mut dbs = member("edge-1", &etcd.endpoint()).runs_with("db", "serve", DB).up(&["db"]);
    let mut apps = member("edge-2", &etcd.endpoint())
        .crash_limit("100/1m")
        .runs_with("app", "serve", &needs(", whenDown: stop"))
        .runs_with("again", "serve", &needs(""))
        .up(&["app", "again"]);
    let (pid, before) = (apps.pid_of("app"), history(&apps, "app").len());
    let is_undisturbed = |what: &str| {
        let app = apps.service("app");
        assert!(app.up, "{what}: {app:?}");
        assert_eq!(apps.pid_of("app"), pid, "{what}");
    };
    disturb(&apps);
    eventually("the store to be connected", || status(&apps)["connected"] == true);
    is_undisturbed("with the store");

    etcd.stop();
    eventually("the store to be lost", || {
        status(&apps)["problem"].as_str().is_some_and(|problem| problem.contains("refused"))
    });
    disturb(&apps);
    is_undisturbed("without the store");
    // The last answer lets others start, too.
    apps.ctl(&["restart", "again", "--wait"]).ok();
    apps.wait_up("again");

    etcd.restart();
    eventually("the store to be back", || status(&apps)["connected"] == true);
    disturb(&apps);
    eventually("the store to be connected", || status(&apps)["connected"] == true);
    is_undisturbed("once the store is back");
    let new: Vec<String> = history(&apps, "app").split_off(before);
    assert!(new.iter().all(|text| !text.contains("which it needs")), "{new:?}");
    apps.poweroff();
    dbs.poweroff();
}

#[test]
fn long_the_last_answer_counts_as_long_as_the_file_says() {
    let Some(mut etcd) = Etcd::start() else { return };
    let mut dbs = member("edge-1", &etcd.endpoint()).runs_with("db", "serve", DB).up(&["db"]);
    let mut apps = member("edge-2", &etcd.endpoint())
        .runs_with("short", "serve", &needs(", staleFor: 35s, whenDown: restart"))
        .runs_with("long", "serve", &needs(", whenDown: restart"))
        .runs_with("waits", "serve", "depends: [{registered: web}]")
        .up(&["short", "long"]);
    wait_message(&apps, "waits", "registered web (0 of 1)");
    etcd.stop();
    apps.ctl(&["reexec"]).ok();
    until("the answer to be an old one", Duration::from_secs(60), || {
        let text = apps.service("waits").message;
        (text.contains("(0 of 1; as of 20") && text.contains("the registry does not answer")).then_some(())
    });
    assert!(apps.service("short").up);
    let text = "registered postgres with tag primary (the registry has not answered for 35s)";
    until("the short time to be over", Duration::from_secs(60), || {
        apps.service("short").message.contains(text).then_some(())
    });
    assert!(apps.service("long").up);
    etcd.restart();
    apps.wait_up("short");
    wait_message(&apps, "waits", "registered web (0 of 1)");
    apps.poweroff();
    dbs.poweroff();
}
