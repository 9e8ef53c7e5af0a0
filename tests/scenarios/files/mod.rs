//! The files: mistakes in them are all told at once and cost nobody else anything; SIGHUP reads them again.

use kelson_tests::{Host, PATIENCE, until};

const SERVE: &str = "process: {command: [$PROGRAM, serve]}\n";

/// Name, text, what is to be said, and in which line.
const MISTAKES: [(&str, &str, usize, &str); 10] = [
    ("unknown-key", "process: {command: [/bin/true]}\nproces: 3", 3, "process"),
    ("wrong-type", "process: {command: /bin/true}", 2, "list"),
    ("wrong-unit", "process: {command: [/bin/true]}\nstop: {timeout: 10x}", 3, "10x"),
    ("unknown-service", "process: {command: [/bin/true]}\ndepends: [{service: nobody}]", 3, "nobody"),
    ("self", "process: {command: [/bin/true]}\ndepends: [{service: self}]", 3, "self"),
    ("forever", "process: {command: [/bin/true]}\ntype: oneshot\nrestart: {policy: forever}", 4, "oneshot"),
    ("other-name", "name: another\nprocess: {command: [/bin/true]}", 1, "other-name"),
    ("no-process", "description: nothing to run", 0, "process"),
    ("unknown-signal", "process: {command: [/bin/true]}\nstop: {signal: SIGNOTHING}", 3, "SIGNOTHING"),
    ("unknown-user", "process: {command: [/bin/true]}\nuser: nobody-of-this-name", 3, "nobody-of-this-name"),
];

#[test]
fn files_ten_mistakes_are_told_at_once_and_all_good_services_start() {
    let mut builder = Host::builder()
        .service("good", SERVE)
        .service("better", &format!("{SERVE}depends: [{{service: good}}]"))
        .service("best", &format!("{SERVE}depends: [{{service: better}}, {{path: /}}]"));
    for (name, text, _, _) in MISTAKES {
        builder = builder.service(name, text);
    }
    let mut host = builder.start();
    let folder = host.path("config");
    let output = host.ctl(&["validate", folder.to_str().expect("a path in UTF-8")]).expect(1);
    let json = host.ctl(&["-o", "json", "validate", folder.to_str().expect("a path in UTF-8")]).expect(1);
    let told: Vec<serde_json::Value> = json.json();
    assert_eq!(told.len(), MISTAKES.len(), "{told:#?}");
    let all = format!("{}{}", output.stdout, output.stderr);
    for (name, _, line, word) in MISTAKES {
        let place = match line {
            0 => format!("{name}.yaml"),
            line => format!("{name}.yaml:{line}:"),
        };
        let said = all.lines().find(|said| said.contains(&place));
        let said = said.unwrap_or_else(|| panic!("no {place} in\n{all}"));
        assert!(said.contains(word), "\"{word}\" is to be said of {name}: {said}");
    }
    for name in ["good", "better", "best"] {
        host.wait_up(name);
    }
    for (name, _, _, word) in MISTAKES {
        let service = host.service(name);
        assert_eq!((service.state.as_str(), service.up, service.pid), ("failed", false, None), "{service:?}");
        assert!(service.message.contains(word) && service.message.contains(".yaml"), "{service:?}");
    }
    host.poweroff();
}

#[test]
fn files_sighup_starts_new_services_stops_removed_ones_and_names_changed_ones() {
    let mut host = Host::builder()
        .service("same", SERVE)
        .service("leaving", SERVE)
        .service("changed", "process: {command: [$PROGRAM, print=old, serve]}")
        .service("broken", SERVE)
        .start();
    for name in ["same", "leaving", "changed", "broken"] {
        host.wait_up(name);
    }
    let pids = ["same", "changed", "broken"].map(|name| host.pid_of(name));
    let mut before = host.newest_event();
    let mut reload = |host: &Host| {
        host.signal(libc::SIGHUP);
        let read = host.wait_event(before, "that the files were read", |event| {
            event.service.is_empty() && event.message.starts_with("the files were read again")
        });
        before = read.seq;
        read.message
    };
    assert_eq!(reload(&host), "the files were read again", "nothing has changed");

    host.write_service("arriving", SERVE);
    host.write_service("by-hand", &format!("{SERVE}start: manual"));
    host.write_service("changed", "process: {command: [$PROGRAM, print=new, serve]}");
    host.write_service("broken", "process: {command: 3}");
    host.remove_service("leaving");
    let said = reload(&host);
    for part in ["started: arriving;", "stopped: leaving;", "take it up: changed;", "broken.yaml:2:"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    host.wait_up("arriving");
    until("the removed one to be gone", PATIENCE, || {
        host.services().iter().all(|service| service.name != "leaving").then_some(())
    });
    assert_eq!(host.ctl(&["status", "leaving"]).status, 1);
    assert!(!host.cgroup_of("leaving").exists());
    assert_eq!(host.service("by-hand").pid, None);
    // What runs goes on as it was.
    assert_eq!(["same", "changed", "broken"].map(|name| host.pid_of(name)), pids);
    assert!(!host.log_text("changed").contains("new"));
    host.ctl(&["restart", "changed", "--wait"]).ok();
    host.wait_log("changed", "new");
    assert_eq!(host.pid_of("same"), pids[0]);
    host.poweroff();
}

#[test]
fn kelsonctl_reload_prints_what_changed() {
    let mut host = Host::builder()
        .service("db", "process: {command: [$PROGRAM, serve]}")
        .service("old", "process: {command: [$PROGRAM, serve]}")
        .start();
    host.wait_up("db");
    host.wait_up("old");
    assert_eq!(host.ctl(&["reload"]).ok().stdout, "nothing changed\n");
    host.write_service("mail", "process: {command: [$PROGRAM, serve]}");
    host.write_service("db", "process: {command: [$PROGRAM, serve]}\ndescription: another");
    host.remove_service("old");
    let said = host.ctl(&["reload"]).ok().stdout;
    let expected =
        "mail: new, started\nold: removed, stopped\ndb: changed; `kelsonctl restart db` applies it\n";
    assert_eq!(said, expected);
    host.wait_up("mail");
    // A mistake is printed with its place, and nothing else is lost by it.
    host.write_service("mail", "process: {command: [$PROGRAM, serve]}\nnonsense: 1");
    let said = host.ctl(&["reload"]).expect(1).stderr;
    assert!(said.contains("mail.yaml:") && said.contains("nonsense"), "{said}");
    assert!(host.service("mail").up);
    // A name is reserved.
    let said = host.ctl(&["reload", "db"]).expect(2).stderr;
    assert!(said.contains("reload takes no name"), "{said}");
    host.poweroff();
}
