//! Containers end, log and outlive containerd as processes do: the scenarios of their names, on one machine.

use std::time::Duration;

use kelson_tests::{Event, PATIENCE, Vm};

/// A service of the image that holds the test program alone.
fn container(steps: &str, more: &str) -> String {
    format!("container: {{image: test/program:1, command: [/kelson-test-program, {steps}]}}\n{more}")
}

#[test]
fn s2_s4_p4_c4_c5_containers_are_held_like_processes() {
    let once = "restart: {policy: once}";
    let mut vm = Vm::builder("containers")
        .program_image("test/program:1")
        .service(
            "deaf",
            &container("ignore=TERM, 'spawn=setsid,ignore=TERM,hang', hang", "stop: {timeout: 400ms}"),
        )
        .service("delayed", &container("await=TERM, print=signalled", "stop: {delay: 2s}"))
        .service("words", &container("lines=1000, write=last-of-words", once))
        .service("fails", &container("print=first, write=last-of-fails, exit=3", once))
        .service(
            "again",
            &container("print=run, exit=1", "restart: {delay: 1ms, maxDelay: 1ms, attempts: 2}"),
        )
        .service("steady", &container("ticker=100ms", ""))
        .service("look", "process: {command: [$PROGRAM, serve]}")
        .boot();
    vm.wait_up(&["deaf", "delayed", "steady", "look"]);
    p4_the_last_words_are_in_the_log(&vm);
    c5_a_container_has_one_task_a_run(&vm);
    c4_containers_outlive_containerd(&vm);
    s2_all_processes_are_killed(&vm);
    s4_the_signal_comes_after_the_delay(&vm);
    // What ended has left neither container nor snapshot behind; what runs has one of each.
    for kind in ["containers", "snapshots"] {
        let list = ctr(&vm, &[kind, "ls"]);
        let has = |name: &str| list.lines().any(|line| line.split_whitespace().next() == Some(name));
        assert!(has("steady"), "{kind}:\n{list}");
        for name in ["deaf", "delayed", "words", "fails", "again"] {
            assert!(!has(name), "{name} is left in {kind}:\n{list}");
        }
    }
    vm.poweroff();
}

/// What containerd's own tool says.
#[track_caller]
fn ctr(vm: &Vm, args: &[&str]) -> String {
    vm.ctl(&[&["exec", "look", "--", "/usr/bin/ctr", "--namespace", "kelson"], args].concat()).ok().stdout
}

#[track_caller]
fn events_of(vm: &Vm, name: &str) -> Vec<Event> {
    vm.client().events().into_iter().filter(|event| event.service == name).collect()
}

#[track_caller]
fn wait_state(vm: &Vm, name: &str, state: &str) {
    vm.client().wait_for(name, state, PATIENCE, |service| service.state == state);
}

fn p4_the_last_words_are_in_the_log(vm: &Vm) {
    for (name, state, lines) in [("words", "finished", 1001), ("fails", "failed", 2)] {
        wait_state(vm, name, state);
        let log = vm.ctl(&["logs", name]).ok().stdout;
        assert!(log.trim_end().ends_with(&format!("last-of-{name}")), "{log}");
        assert_eq!(log.lines().count(), lines, "{log}");
    }
    assert!(vm.client().service("fails").message.contains("status 3"), "{:?}", vm.client().service("fails"));
}

fn c5_a_container_has_one_task_a_run(vm: &Vm) {
    wait_state(vm, "again", "failed");
    let log = vm.ctl(&["logs", "again"]).ok().stdout;
    assert_eq!(log.lines().filter(|line| line.ends_with("run")).count(), 3, "{log}");
    // Prepared once, run three times.
    let events = events_of(vm, "again");
    let states = |state| events.iter().filter(|event| event.state == state).count();
    assert!(events.iter().filter(|event| event.message.contains("run 3")).count() >= 1, "{events:#?}");
    assert!(states("backoff") == 2 && states("failed") == 1, "{events:#?}");
}

fn c4_containers_outlive_containerd(vm: &Vm) {
    let before = vm.client().service("steady");
    let old = vm.client().service("containerd").pid;
    vm.ctl(&["restart", "containerd", "--wait"]).ok();
    assert_ne!(vm.client().service("containerd").pid, old);
    let after = vm.client().service("steady");
    assert_eq!((after.pid, after.restarts, after.up), (before.pid, 0, true), "{after:?}");
    // Its log goes on.
    let mut lines = vm.client().follow(&["logs", "-f", "--tail", "0", "steady"]);
    assert!(lines.next(PATIENCE).is_some_and(|line| line.contains("tick")));
}

fn s2_all_processes_are_killed(vm: &Vm) {
    vm.ctl(&["stop", "deaf", "--wait"]).ok();
    let events = events_of(vm, "deaf");
    let killed = "did not end within 400 ms of its stop signal, killed";
    assert!(events.iter().any(|event| event.message.contains(killed)), "{events:#?}");
    let deaf = vm.client().service("deaf");
    assert_eq!((deaf.state.as_str(), deaf.stopped, deaf.up), ("finished", true, false), "{deaf:?}");
}

fn s4_the_signal_comes_after_the_delay(vm: &Vm) {
    vm.ctl(&["stop", "delayed", "--wait"]).ok();
    let events = events_of(vm, "delayed");
    let at = |state: &str| events.iter().find(|event| event.state == state).map(Event::at);
    let (Some(stopping), Some(finished)) = (at("stopping"), at("finished")) else { panic!("{events:#?}") };
    assert!(finished - stopping >= Duration::from_millis(1990), "{events:#?}");
    let log = vm.ctl(&["logs", "delayed"]).ok().stdout;
    assert!(log.contains("signalled"), "{log}");
}
