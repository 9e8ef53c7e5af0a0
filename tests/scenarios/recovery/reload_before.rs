//! The files are read again, and then PID 1 ends: the next incarnation runs by what the boot read and the reload took up,
//! and by nothing else that stands on the disk.

use std::fs;
use std::time::{Duration, Instant};

use kelson_tests::{Event, Host};
use serde_json::Value;

use super::{Fault, each_fault};

const SERVE: &str = "process: {command: [$PROGRAM, serve]}";

/// Has the files read again, and returns what the event says of it.
#[track_caller]
fn reload(host: &Host) -> String {
    let before = host.newest_event();
    host.signal(libc::SIGHUP);
    let done = |event: &Event| {
        event.service.is_empty()
            && ["the files were read again", "the files were not taken up"]
                .iter()
                .any(|start| event.message.starts_with(start))
    };
    host.wait_event(before, "that the files were read", done).message
}

fn write_machine(host: &Host, text: &str) {
    fs::write(host.path("config/machine.yaml"), text).expect("the test's folder is writable");
}

#[track_caller]
fn deadline(host: &Host) -> f64 {
    let output = host.ctl(&["health", "-o", "json"]);
    let health: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    health["deadlineMs"].as_f64().expect("a number")
}

#[test]
fn a_reload_that_fails_changes_nothing_before_or_after_a_crash() {
    each_fault(|fault| {
        let mut host = Host::builder()
            .machine("health: {minimum: 0s, deadline: 77s}\nshutdown: {timeout: 50s}")
            .service("web", SERVE)
            .service("wrong", "process: {command: 3}")
            .up(&["web"]);
        let (pid, faulty) = (host.pid_of("web"), host.service("wrong").message);
        fs::rename(host.path("config"), host.path("away")).expect("the test's folder is writable");
        let said = reload(&host);
        assert!(said.contains("nothing was changed") && said.contains("config"), "{said}");
        assert_eq!(deadline(&host), 77_000.0);
        fault.strike(&host);
        assert_eq!(deadline(&host), 77_000.0, "what the boot read is forgotten");
        assert_eq!(host.service("wrong").message, faulty);
        assert_eq!(host.pid_of("web"), pid);
        fs::rename(host.path("away"), host.path("config")).expect("the test's folder is writable");
        assert_eq!(reload(&host).split(';').next(), Some("the files were read again"));
        host.poweroff();
    });
}

#[test]
fn a_machine_file_with_mistakes_is_not_taken_up_and_its_service_files_are() {
    let mut host =
        Host::builder().machine("health: {minimum: 0s, deadline: 77s}").service("web", SERVE).up(&["web"]);
    write_machine(&host, "health: {minimum: 0s, deadline: 99s}\nshutdwn: {timeout: 1s}");
    host.write_service("new", SERVE);
    let said = reload(&host);
    assert!(said.contains("started: new") && said.contains("machine.yaml has mistakes"), "{said}");
    assert_eq!(deadline(&host), 77_000.0);
    host.crash(|| host.signal(libc::SIGSEGV));
    assert_eq!(deadline(&host), 77_000.0);
    host.wait_up("new");
    host.poweroff();
}

#[test]
fn a_mistake_in_a_changed_file_is_known_to_the_next_incarnation() {
    each_fault(|fault| {
        let file = |host: &Host| {
            let status: Value = host.ctl(&["-o", "json", "status", "web"]).ok().json();
            status["faultyFile"].clone()
        };
        let mut host = Host::builder().service("web", SERVE).up(&["web"]);
        host.write_service("web", "process: {command: 3}");
        assert!(reload(&host).contains("web.yaml:2:"));
        let before = file(&host);
        assert!(before["earlierRead"].is_string(), "when the version was read that is in use: {before}");
        fault.strike(&host);
        assert_eq!(file(&host), before);
        assert_eq!(host.ctl(&["restart", "web", "--wait"]).status, 1);
        let told = host.events_of("web").iter().filter(|event| event.message.contains("a mistake")).count();
        assert_eq!(told, 1, "it is told once");
        host.write_service("web", SERVE);
        reload(&host);
        assert_eq!(file(&host), Value::Null);
        fault.strike(&host);
        assert_eq!(file(&host), Value::Null);
        host.poweroff();
    });
}

#[test]
fn a_reload_takes_up_the_live_keys_at_once_and_no_crash_takes_up_the_others() {
    let file = |deadline: &str, enabled: bool| {
        format!(
            "health: {{minimum: 0s, deadline: {deadline}}}\n\
             builtins: {{containerd: {{enabled: {enabled}}}}}\n"
        )
    };
    let mut host = Host::builder().machine(&file("77s", false)).service("web", SERVE).up(&["web"]);
    write_machine(&host, &file("99s", true));
    host.write_service("box", "container: {image: demo/box:1, runtime: containerd}");
    for fault in [None, Some(Fault::Crash), Some(Fault::Reexec)] {
        if let Some(fault) = fault {
            fault.strike(&host);
        }
        let said = reload(&host);
        // An applied key is no change any more; a waiting one still is.
        assert_eq!(said.contains("machine.yaml, taken up: health;"), fault.is_none(), "{said}");
        assert!(said.contains("machine.yaml, waits for the next boot: builtins"), "{said}");
        assert_eq!(deadline(&host), 99_000.0, "health is a live key");
        let containerd = host.services().into_iter().find(|service| service.name == "containerd");
        assert!(containerd.is_none(), "it is off since the boot: {containerd:?}");
        let message = host.service("box").message;
        assert!(message.contains("containerd is off since the boot; reboot"), "{message}");
    }
    host.poweroff();
}

#[test]
fn a_reload_takes_up_the_shutdown_timeout() {
    let mut host = Host::builder().runs_deaf("deaf", "stop: {timeout: 5m}").up(&["deaf"]);
    write_machine(&host, "shutdown: {timeout: 1s}");
    assert!(reload(&host).contains("taken up: shutdown"));
    host.ctl(&["poweroff"]).ok();
    let begun = Instant::now();
    host.wait_exit();
    assert!(begun.elapsed() < Duration::from_secs(30), "it took {:?}", begun.elapsed());
}

#[test]
fn a_manual_service_that_its_new_file_calls_auto_is_not_started_by_the_next_incarnation() {
    each_fault(|fault: Fault| {
        let mut host = Host::builder()
            .service("web", SERVE)
            .service("hand", &format!("{SERVE}\nstart: manual"))
            .up(&["web"]);
        host.write_service("hand", SERVE);
        assert!(reload(&host).contains("take it up: hand"));
        assert_eq!(host.service("hand").state, "initialized");
        let newest = host.newest_event();
        for _ in 0..2 {
            fault.strike(&host);
        }
        // A start would stand before this in the events.
        host.ctl(&["restart", "web", "--wait"]).ok();
        let now = host.service("hand");
        assert_eq!((now.state.as_str(), now.pid), ("initialized", None), "{now:?}");
        let told: Vec<Event> =
            host.events_of("hand").into_iter().filter(|event| event.seq > newest).collect();
        assert!(told.is_empty(), "{told:?}");
        host.ctl(&["start", "hand", "--wait"]).ok();
        host.poweroff();
    });
}

#[test]
fn a_lost_configuration_starts_no_service_whose_file_is_new() {
    let mut host = Host::builder().service("web", SERVE).up(&["web"]);
    host.write_service("new", SERVE);
    host.touch("run/state/papers/configuration");
    host.crash(|| host.signal(libc::SIGSEGV));
    host.ctl(&["restart", "web", "--wait"]).ok();
    assert!(host.services().iter().all(|service| service.name != "new"), "{:?}", host.services());
    assert!(reload(&host).contains("started: new"));
    host.wait_up("new");
    host.poweroff();
}

#[test]
fn a_file_that_was_corrected_during_the_backoff_is_used_by_the_next_run() {
    each_fault(|fault| {
        let mut host = Host::builder()
            .runs_with("web", "exit=3", "restart: {delay: 20s, maxDelay: 20s}")
            .runs_with("late", "serve", "depends: [{service: web}]")
            .start();
        host.wait_state("web", "backoff");
        host.write_service("web", "process: {command: [$PROGRAM, print=corrected, serve]}");
        assert_eq!(host.ctl(&["reload"]).ok().stdout, "web: changed; its next run uses it\n");
        assert_eq!(host.service("web").state, "backoff", "the delay stays what it was");
        fault.strike(&host);
        // Nobody asks for a restart.
        host.wait_up("web");
        host.wait_log("web", "corrected");
        host.wait_up("late");
        let web = host.service("web");
        assert_eq!(web.restarts, 1, "{web:?}");
        host.poweroff();
    });
}
