//! The file of a group: when the group is healthy, and how often it is restarted as a whole.

use std::fs;

use kelson_tests::{Host, PATIENCE, eventually, free_port, until};
use serde_json::Value;

#[track_caller]
fn health(host: &Host, group: &str) -> Value {
    serde_json::from_str(&host.ctl(&["health", group, "-o", "json"]).stdout).expect("JSON")
}

/// Its minimum and its deadline, in milliseconds.
#[track_caller]
fn times(host: &Host, group: &str) -> (Option<f64>, Option<f64>) {
    let health = health(host, group);
    (health["minimumMs"].as_f64(), health["deadlineMs"].as_f64())
}

#[test]
fn a_group_is_judged_by_its_own_file_which_a_reload_and_a_reexec_keep_to() {
    let mut host = Host::builder()
        .machine("health: {minimum: 300ms, deadline: 4m}")
        .group("shop", "minimum: 1m\ndeadline: 2m")
        .runs_with("db", "serve", "group: shop")
        .runs_with("mail", "serve", "group: post")
        .runs_with("late", "serve", "group: slow\ndepends: [{path: $DIR/flag}]")
        .start();
    host.ctl(&["health", "post", "--wait", "--timeout", "30s"]).ok();
    assert_eq!(times(&host, "shop"), (Some(60_000.0), Some(120_000.0)));
    assert_eq!(times(&host, "post"), (Some(300.0), Some(240_000.0)));
    assert_eq!(health(&host, "shop")["state"], "pending");
    host.ctl(&["reexec"]).ok();
    assert_eq!(times(&host, "shop"), (Some(60_000.0), Some(120_000.0)));

    // A change takes effect at once.
    host.write_group("shop", "minimum: 200ms");
    let reload = host.ctl(&["reload"]).ok();
    assert_eq!(reload.stdout, "group shop: changed, applied\n");
    host.ctl(&["health", "shop", "--wait", "--timeout", "30s"]).ok();
    assert_eq!(times(&host, "shop"), (Some(200.0), Some(240_000.0)));
    assert_eq!(host.ctl(&["reload"]).ok().stdout, "nothing changed\n");
    host.wait_event(0, "of the reload", |event| event.message.ends_with("; groups, taken up: shop"));

    // It has its whole deadline again.
    host.write_group("slow", "deadline: 1s\nminimum: 100ms");
    host.ctl(&["reload"]).ok();
    host.ctl(&["health", "slow", "--wait"]).expect(1);
    assert_eq!(health(&host, "slow")["state"], "failed");
    host.write_group("slow", "deadline: 3m\nminimum: 100ms");
    host.ctl(&["reload"]).ok();
    let slow = health(&host, "slow");
    assert_eq!(slow["state"], "pending", "{slow}");
    assert!(slow["leftMs"].as_f64() > Some(150_000.0), "{slow}");

    // A mistake changes nothing, also not in the next incarnation.
    host.write_group("slow", "deadline: 1s\nminimum: soon");
    let reload = host.ctl(&["reload"]).expect(1);
    assert!(reload.stderr.contains("groups/slow.yaml:2:10: minimum: "), "{}", reload.stderr);
    host.crash(|| host.signal(libc::SIGSEGV));
    assert_eq!(times(&host, "slow"), (Some(100.0), Some(180_000.0)));
    host.touch("flag");
    host.ctl(&["health", "slow", "--wait", "--timeout", "30s"]).ok();
    host.poweroff();
}

/// Ends the process of a service that has used its own budget up, so that its group is asked for a restart.
#[track_caller]
fn ask(host: &Host, service: &str) {
    host.kill(host.pid_of(service), libc::SIGKILL);
}

fn restarts(host: &Host, group: &str) -> usize {
    let begins = format!("group {group} restarts: ");
    host.events_of("").iter().filter(|event| event.message.starts_with(&begins)).count()
}

#[test]
fn the_budget_of_the_group_file_outlives_a_reexec_and_refuses_the_next_restart() {
    // Each member may ask once after its first failure; the group as a whole is restarted twice.
    let member = "process: {command: [$PROGRAM, serve]}\ngroup: shop\n\
                  restart: {delay: 10ms, maxDelay: 10ms, attempts: 1, interval: 1h, scope: group}";
    let mut host = Host::builder()
        .group("shop", "restart: {delay: 100ms, attempts: 2, interval: 1h}")
        .service("a", member)
        .service("b", member)
        .service("c", member)
        .start();
    for (round, name) in ["a", "b"].into_iter().enumerate() {
        ["a", "b", "c"].into_iter().for_each(|name| host.wait_up(name));
        let first = host.pid_of(name);
        ask(&host, name);
        host.wait_for(name, "to run again", |now| now.up && now.pid != Some(first));
        let other = host.pid_of("c");
        ask(&host, name);
        eventually("the group to restart", || restarts(&host, "shop") == round + 1);
        host.wait_for("c", "to be restarted with its group", |now| now.up && now.pid != Some(other));
        host.ctl(&["reexec"]).ok();
    }
    ["a", "b", "c"].into_iter().for_each(|name| host.wait_up(name));
    let (a, b) = (host.pid_of("a"), host.pid_of("b"));
    let first = host.pid_of("c");
    ask(&host, "c");
    host.wait_for("c", "to run again", |now| now.up && now.pid != Some(first));
    ask(&host, "c");
    host.wait_event(0, "of the refusal", |event| {
        event.message.starts_with(
            "group shop gave up after 3 failures in 1h and is not restarted, as asked for by c: ",
        )
    });
    let refused = host
        .wait_for("c", "to end", |now| now.state == "failed" && now.message.contains("group shop gave up"));
    assert!(refused.message.ends_with("; group shop gave up after 3 failures in 1h"), "{refused:?}");
    assert_eq!((restarts(&host, "shop"), host.pid_of("a"), host.pid_of("b")), (2, a, b));
    host.poweroff();
}

#[test]
fn mistakes_and_warnings_of_group_files_are_told_before_a_host_meets_them() {
    let mut host = Host::builder()
        .group("shop", "minimum: 5s\ndeadline: 2s\nrestart: {policy: once, attempts: many}\nmembers: [web]")
        .group(
            "post",
            "health:\n- exec: {command: [/bin/true]}\n- {tcp: {port: 25}, startup: true}\n- {tcp: {port: 0}}",
        )
        .group("lonely", "minimum: 5s")
        .runs_with("web", "serve", "group: shop")
        .runs_with("mail", "serve", "group: post")
        .start();
    let folder = host.path("config").display().to_string();
    let told = host.ctl(&["validate", &folder]).expect(1).stdout;
    for text in [
        "groups/shop.yaml:2:11: deadline: deadline is less than minimum, so the group could never be healthy",
        "groups/shop.yaml:3:11: restart.policy: a group is restarted when a member with restart: {scope: group} asks for it",
        "groups/shop.yaml:3:35: restart.attempts: ",
        "groups/shop.yaml:4:1: members: this key is not known",
        "groups/lonely.yaml: warning: no service is in group lonely, so this file has no effect",
        "groups/post.yaml:2:3: health[0].exec: a group has no process in which a command could run, no volumes and no start to gate; \
         write this check into the file of a member",
        "groups/post.yaml:3:21: health[1].startup: a group has no process",
        "groups/post.yaml:4:16: health[2].tcp.port: ",
        "7 mistakes; 2 services without a mistake",
    ] {
        assert!(told.contains(text), "{text} is not in\n{told}");
    }
    // The service runs, and its group is judged as the host.
    host.wait_up("web");
    assert_eq!(times(&host, "shop"), (Some(10_000.0), Some(300_000.0)));
    for text in ["groups/shop.yaml:2:11: ", "no service is in group lonely"] {
        host.wait_event(0, text, |event| event.service.is_empty() && event.message.contains(text));
    }
    host.write_group("shop", "minimum: 1s\nname: shop");
    host.write_group("post", "health: [{name: smtp, tcp: {port: 25}}]");
    let json: Vec<Value> = host.ctl(&["-o", "json", "validate", &folder]).ok().json();
    assert_eq!((json.len(), &json[0]["warning"]), (1, &Value::Bool(true)), "{json:#?}");
    let table = host.ctl(&["validate", &folder]).ok().stdout;
    assert!(table.ends_with("2 services, no mistakes\n"), "{table}");
    let schema: Value = host.ctl(&["schema", "group"]).ok().json();
    assert!(schema["properties"]["minimum"].is_object(), "{schema}");
    host.poweroff();
}

/// The group shop of db and of web, which answers http at a port with what stands in the file `answer`.
fn shop_with(group: &str, port: u16) -> Host {
    Host::builder()
        .machine("health: {minimum: 300ms, deadline: 4m}")
        .group("shop", group)
        .runs_with("db", "serve", "group: shop")
        .runs_with("web", &format!("'http={port}:$DIR/answer'"), "group: shop")
        .start()
}

fn answer(host: &Host, answer: &str) {
    fs::write(host.path("answer"), answer).expect("the test's folder is writable");
}

#[test]
fn a_check_of_a_group_breaks_the_health_of_the_group_alone() {
    let port = free_port();
    let front = |port: u16| {
        format!(
            "minimum: 300ms\n\
             health: [{{name: front, http: {{port: {port}}}, initialDelay: 0s, interval: 100ms, failureThreshold: 2}}]"
        )
    };
    let mut host = shop_with(&front(port), port);
    let up = host.ctl(&["health", "shop", "--wait", "--timeout", "30s"]).ok().stdout;
    assert!(up.contains(": all 2 services are up and its one check passes for "), "{up}");
    host.ctl(&["health", "--wait", "--timeout", "30s"]).ok();

    answer(&host, "500 broken");
    let sick = until("the group to be unhealthy", PATIENCE, || {
        let now = health(&host, "shop");
        (now["state"] == "unhealthy").then_some(now)
    });
    assert_eq!(sick["message"], "1 of 1 check does not pass", "{sick:#}");
    let culprit = &sick["culprits"][0];
    let reason = "status 500, wanted 200-399";
    assert_eq!((&culprit["check"], &culprit["reason"]), (&"front".into(), &reason.into()), "{sick:#}");
    assert!(culprit["service"].is_null() && culprit["state"].is_null(), "{sick:#}");
    assert_eq!(
        (&sick["lastBreak"]["check"], sick["culprits"].as_array().map(Vec::len)),
        (&"front".into(), Some(1))
    );
    let text = host.ctl(&["health", "shop"]).expect(1).stdout;
    assert!(text.contains("check front") && text.contains(reason), "{text}");
    host.wait_event(0, "of the group", |event| {
        event.message
            == format!("group shop is unhealthy: 1 of 1 check does not pass (check front: {reason})")
    });
    host.wait_event(0, "of the check", |event| {
        event.message == format!("group shop: check front fails: {reason}")
    });
    // The members and the host are as they were.
    assert!(host.service("web").up && host.service("db").up);
    host.ctl(&["health"]).ok();
    let metrics = host.ctl(&["metrics"]).ok().stdout;
    assert!(metrics.contains("kelson_group_healthy{group=\"shop\"} 0"), "{metrics}");
    assert!(metrics.contains("kelson_node_healthy 1"), "{metrics}");

    answer(&host, "200 fine");
    host.ctl(&["health", "shop", "--wait", "--timeout", "30s"]).ok();
    // While a member is down nothing is asked, and that member is the one that is named.
    host.ctl(&["stop", "db"]).ok();
    let down = health(&host, "shop");
    let named: Vec<&Value> =
        down["culprits"].as_array().expect("a list").iter().map(|one| &one["service"]).collect();
    assert_eq!(named, ["db"], "{down:#}");
    host.ctl(&["start", "db"]).ok();
    host.ctl(&["health", "shop", "--wait", "--timeout", "30s"]).ok();

    // A reload takes other checks up, and drops those that are gone.
    host.write_group("shop", &front(free_port()));
    assert_eq!(host.ctl(&["reload"]).ok().stdout, "group shop: changed, applied\n");
    let now = health(&host, "shop");
    assert_eq!(
        (&now["state"], &now["culprits"][0]["check"]),
        (&"pending".into(), &"front".into()),
        "{now:#}"
    );
    host.write_group("shop", "minimum: 300ms");
    host.ctl(&["reload"]).ok();
    let up = host.ctl(&["health", "shop", "--wait", "--timeout", "30s"]).ok().stdout;
    assert!(up.contains(": all 2 services are up for "), "{up}");
    host.poweroff();
}

#[test]
fn a_check_of_a_group_restarts_it_until_its_budget_is_used_up() {
    let port = free_port();
    let group = format!(
        "minimum: 300ms\nrestart: {{delay: 100ms, attempts: 1, interval: 1h}}\n\
         health: [{{name: front, http: {{port: {port}}}, initialDelay: 0s, interval: 100ms, grace: 0s, restartAfter: 3}}]"
    );
    let mut host = shop_with(&group, port);
    host.ctl(&["health", "shop", "--wait", "--timeout", "30s"]).ok();
    let processes = |host: &Host| (host.service("db").pid, host.service("web").pid);
    let before = processes(&host);
    answer(&host, "500 broken");
    let why = "check front failed 3 times: status 500, wanted 200-399";
    host.wait_event(0, "of the restart", |event| event.message == format!("group shop restarts: {why}"));
    // It fails after the restart as well, and there is no other one.
    let refused =
        format!("group shop gave up after 2 failures in 1h and is not restarted, as asked for by {why}");
    host.wait_event(0, "of the refusal", |event| event.message == refused);
    let after = processes(&host);
    assert!(
        before.0 != after.0 && before.1 != after.1 && restarts(&host, "shop") == 1,
        "{before:?} {after:?}"
    );
    assert!(host.service("web").up && host.service("db").up);
    assert_ne!(health(&host, "shop")["state"], "healthy");
    host.ctl(&["health", "--wait", "--timeout", "30s"]).ok();
    // The next failures ask for nothing.
    answer(&host, "503 busy");
    eventually("the next failure", || {
        health(&host, "shop")["culprits"][0]["reason"] == "status 503, wanted 200-399"
    });
    let refusals = host.events_of("").iter().filter(|event| event.message.contains("shop gave up")).count();
    assert_eq!((refusals, processes(&host)), (1, after));
    answer(&host, "200 fine");
    host.ctl(&["health", "shop", "--wait", "--timeout", "30s"]).ok();
    host.poweroff();
}
