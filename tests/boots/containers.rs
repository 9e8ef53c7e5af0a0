//! Containers in real boots: the scenarios of their names. Each machine takes its time, so there are few, and each has
//! many services.

mod images;
mod inside;
mod stopping;

use std::time::Duration;

use kelson_tests::{Event, PATIENCE, Vm};

/// Runs steps on the machine, beside its containers.
const LOOK: &str = "process: {command: [$PROGRAM, serve]}";
/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";

/// A service of the image that holds the test program alone.
fn container(steps: &str, more: &str) -> String {
    format!("container: {{image: test/program:1, command: [/kelson-test-program, {steps}]}}\n{more}")
}

#[test]
fn long_s2_s4_p4_c4_c5_containers_are_held_like_processes() {
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
        .service("look", LOOK)
        .boot();
    vm.wait_up(&["deaf", "delayed", "steady", "look"]);
    p4_the_last_words_are_in_the_log(&vm);
    c5_a_container_has_one_task_a_run(&vm);
    c4_containers_outlive_containerd(&vm);
    s2_all_processes_are_killed(&vm);
    s4_the_signal_comes_after_the_delay(&vm);
    // A service that ended has left neither container nor snapshot behind; one that runs has one of each.
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

/// The short form of the two tests below: what containers may do, and the end of a machine that has some which do not
/// obey.
#[test]
fn p3_s1_s3_containers_have_their_privileges_and_hold_up_no_power_off() {
    let mut vm = stopping::short_services(inside::privileged(Vm::builder("containers-short")))
        .service("look", LOOK)
        .boot();
    vm.wait_up(&["look", "plain", "process", "boxed", "given", "c", "deaf"]);
    inside::p3_nothing_of_pid_1_leaks_into_a_container(&vm);
    inside::a_container_sees_and_may_do_what_its_file_says(&vm);
    stopping::s1_s3_a_chain_and_a_deaf_container_end(&mut vm);
}

#[test]
fn a_machine_without_containerd_runs_the_same_files() {
    let mut vm =
        inside::services(Vm::builder("containers-native")).without_containerd().service("look", LOOK).boot();
    vm.wait_up(&["look", "plain", "process", "boxed", "given", "bounded", "checked"]);
    assert!(vm.services().iter().all(|service| service.name != "containerd"));
    inside::p3_nothing_of_pid_1_leaks_into_a_container(&vm);
    inside::a_container_sees_and_may_do_what_its_file_says(&vm);
    inside::a_container_is_held_to_its_resources(&vm);
    inside::h4_a_check_runs_in_its_container(&vm, "0::/exec");
    inside::a_command_has_a_terminal_of_its_container(&vm);
    inside::a_container_outlives_pid_1(&vm);
    vm.poweroff();
}

#[test]
fn long_c1_c2_c3_c4_h4_p3_containers_are_made_of_images_and_see_what_they_may() {
    let mut vm =
        inside::services(images::services(Vm::builder("containers-inside"))).service("look", LOOK).boot();
    vm.wait_up(&["look", "plain", "process", "boxed", "given", "bounded", "checked"]);
    inside::p3_nothing_of_pid_1_leaks_into_a_container(&vm);
    inside::a_container_sees_and_may_do_what_its_file_says(&vm);
    inside::a_container_is_held_to_its_resources(&vm);
    inside::h4_a_check_runs_in_its_container(&vm, "0::/");
    inside::h4_a_timeout_kills_all_that_the_check_started(&vm);
    images::c3_a_bad_archive_costs_its_own_service_alone(&vm);
    images::c2_images_that_share_layers_unpack_side_by_side(&vm);
    images::c2_an_unpack_that_is_cancelled_leaves_nothing_that_breaks_the_next(&vm);
    images::c1_what_bears_the_name_of_a_service_makes_room_for_it(&vm);
    c4_containers_outlive_a_containerd_that_is_killed(&vm);
    vm.poweroff();
}

#[test]
fn long_s1_s3_p5_no_container_and_no_shim_holds_a_machine_up() {
    let mut vm = stopping::services(Vm::builder("containers-stopping")).service("look", LOOK).boot();
    vm.wait_up(&["look", "chatty", "c", "asleep", "ice", "deaf", "haunted"]);
    stopping::p5_a_full_disk_for_logs_blocks_no_container(&vm);
    stopping::s3_hold_up_containers(&vm);
    stopping::s1_s3_the_end(&mut vm);
}

/// A service that runs these steps in the image `test:1`.
fn steps(steps: &str, more: &str) -> String {
    format!("container: {{image: 'test:1', command: [/program, {steps}]}}\n{more}\n")
}

/// Performs steps on the machine, and returns their output.
#[track_caller]
fn look(vm: &Vm, step: &str) -> String {
    vm.ctl(&["exec", "look", "--", STEPS, step]).ok().stdout
}

/// The cgroup of a service.
fn cgroup(name: &str) -> String {
    format!("/sys/fs/cgroup/kelson/{name}")
}

/// The first words of containerd's lists of `containers`, `snapshots` or `tasks`.
#[track_caller]
fn names(vm: &Vm, kind: &str) -> Vec<String> {
    let list = ctr(vm, &[kind, "ls"]);
    list.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[track_caller]
fn pid_of_task(vm: &Vm, name: &str) -> i32 {
    let list = ctr(vm, &["tasks", "ls"]);
    let pid = list.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [found, pid, "RUNNING"] if found == name => pid.parse().ok(),
        _ => None,
    });
    pid.unwrap_or_else(|| panic!("{name} does not run: {list}"))
}

/// Runs containerd's own tool, and returns its output.
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
    let events = events_of(vm, "again");
    // On a busy computer containerd may take longer than Kelson waits to delete the task of the run before. That start
    // fails, and counts as a run.
    let not_started = events.iter().filter(|event| event.message.starts_with("could not start")).count();
    let is_left = vm.console().contains("the task of service again is left");
    assert!(not_started == 0 || is_left, "{events:#?}");
    let printed = log.lines().filter(|line| line.ends_with("run")).count();
    assert_eq!(printed + not_started, 3, "{log}\n{events:#?}");
    // Prepared once, run three times.
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
    // The same when it is PID 1 that begins another incarnation.
    let before = ["steady", "deaf", "containerd"].map(|name| vm.client().service(name));
    vm.ctl(&["reexec"]).ok();
    for before in before {
        let after = vm.client().service(&before.name);
        assert_eq!((after.pid, after.restarts, after.up), (before.pid, before.restarts, true), "{after:?}");
    }
    let mut lines = vm.client().follow(&["logs", "-f", "--tail", "0", "steady"]);
    assert!(lines.next(PATIENCE).is_some_and(|line| line.contains("tick")));
}

fn c4_containers_outlive_a_containerd_that_is_killed(vm: &Vm) {
    let held = || ["plain", "boxed", "bounded", "left"].map(|name| vm.client().service(name));
    let (before, old) = (held(), vm.client().service("containerd").pid.expect("it runs"));
    look(vm, &format!("kill=KILL:{old}"));
    vm.client().wait_for("containerd", "to be another and up", PATIENCE, |now| {
        now.up && now.pid.is_some_and(|pid| pid != old)
    });
    for (before, after) in before.iter().zip(held()) {
        assert_eq!((after.pid, after.restarts, after.up), (before.pid, 0, true), "{after:?}");
    }
    // They are attached again: commands run in them, and their ends are seen.
    let said = vm.ctl(&["exec", "left", "--", "/program", "print=still here"]).ok().stdout;
    assert_eq!(said, "still here\n");
    vm.ctl(&["stop", "left", "--wait"]).ok();
    let left = vm.client().service("left");
    assert_eq!((left.state.as_str(), left.stopped), ("stopped", true), "{left:?}");
    assert!(!names(vm, "containers").contains(&"left".to_owned()));
}

fn s2_all_processes_are_killed(vm: &Vm) {
    vm.ctl(&["stop", "deaf", "--wait"]).ok();
    let events = events_of(vm, "deaf");
    let killed = "did not end within 400 ms of its stop signal, killed";
    assert!(events.iter().any(|event| event.message.contains(killed)), "{events:#?}");
    let deaf = vm.client().service("deaf");
    assert_eq!((deaf.state.as_str(), deaf.stopped, deaf.up), ("stopped", true, false), "{deaf:?}");
}

fn s4_the_signal_comes_after_the_delay(vm: &Vm) {
    vm.ctl(&["stop", "delayed", "--wait"]).ok();
    let events = events_of(vm, "delayed");
    let at = |state: &str| events.iter().find(|event| event.state == state).map(Event::at);
    let (Some(stopping), Some(finished)) = (at("stopping"), at("stopped")) else { panic!("{events:#?}") };
    assert!(finished - stopping >= Duration::from_millis(1990), "{events:#?}");
    let log = vm.ctl(&["logs", "delayed"]).ok().stdout;
    assert!(log.contains("signalled"), "{log}");
}
