//! P5, S1, S3: a full disk for logs, and the end of a machine whose containers, or what runs them, do not answer.

use std::time::{Duration, Instant};

use kelson_tests::{Image, VmBuilder, archive, eventually, until};

use super::*;

/// The total deadline of the machine. Beside other machines containerd takes many seconds for the chain to end.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);
/// Longer than the total deadline.
const PATIENT: &str = "stop: {timeout: 5m}";
/// No write to a log may take longer.
const BOUND: Duration = Duration::from_secs(2);

pub(super) fn services(builder: VmBuilder) -> VmBuilder {
    let machine = format!(
        "shutdown: {{timeout: {}s}}
mounts: [{{source: tmpfs, target: /var/log/kelson, type: tmpfs, options: [size=1M]}}]
",
        DEADLINE.as_secs()
    );
    chain(builder)
        .machine(&machine)
        .archive("test.tar", archive(&[Image::new("test:1", &["serve"])]))
        .service("chatty", &steps("'beat=20ms:8000:/board'", "logs: {maxSize: 16Mi}\nstop: {timeout: 500ms}"))
        .service("asleep", &steps("await=TERM, print=obeyed", PATIENT))
        .service("ice", &steps("await=TERM, print=obeyed", PATIENT))
        .service("deaf", &steps("ignore=TERM, hang", PATIENT))
        .service("haunted", &steps("serve", PATIENT))
}

/// Three containers, each of which needs the one before.
fn chain(builder: VmBuilder) -> VmBuilder {
    let link = |more: &str| steps("await=TERM, sleep=200ms", more);
    builder
        .service("a", &link(""))
        .service("b", &link("depends: [{service: a}]"))
        .service("c", &link("depends: [{service: b}]"))
}

/// Of the image of [`inside::privileged`]: the chain, and one that ignores its stop signal.
pub(super) fn short_services(builder: VmBuilder) -> VmBuilder {
    let machine = format!("shutdown: {{timeout: {}s}}", DEADLINE.as_secs());
    chain(builder).machine(&machine).service("deaf", &steps("ignore=TERM, hang", PATIENT))
}

/// The number of the last beat, and how long the longest write took.
#[track_caller]
fn board(vm: &Vm) -> (u64, Duration) {
    let text = vm.ctl(&["exec", "chatty", "--", "/program", "cat=/board"]).ok().stdout;
    let numbers: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
    let [number, longest, _] = numbers[..] else { panic!("no board: {text:?}") };
    (number, Duration::from_millis(longest))
}

pub(super) fn p5_a_full_disk_for_logs_blocks_no_container(vm: &Vm) {
    let full = |text: &str| text.contains("No space left on device");
    until("the lost lines to be told of", Duration::from_secs(60), || {
        let told = |event: &Event| {
            event.service == "chatty" && full(&event.message) && event.message.contains("lines")
        };
        events_of(vm, "chatty").iter().any(told).then_some(())
    });
    let (before, _) = board(vm);
    eventually("it to write on", || board(vm).0 > before + 50);
    let (_, longest) = board(vm);
    assert!(longest < BOUND, "a write took {longest:?}");
    let chatty = vm.client().service("chatty");
    assert_eq!((chatty.restarts, chatty.up), (0, true), "{chatty:?}");
    // Once there is room again the log goes on, and says in its place what is missing.
    look(vm, "remove=/var/log/kelson/chatty.log");
    eventually("the log to go on", || {
        // It is not there again at once.
        let read = vm.ctl(&["exec", "look", "--", STEPS, "cat=/var/log/kelson/chatty.log"]);
        let log = read.stdout;
        let lost = log.lines().any(|line| line.contains(" were lost here: ") && full(line));
        lost && log.contains("beat ")
    });
    assert_eq!(vm.client().service("chatty").pid, chatty.pid);
    vm.ctl(&["stop", "chatty", "--wait"]).ok();
    look(vm, "remove=/var/log/kelson/chatty.log");
}

/// Stops a container by SIGSTOP, freezes the cgroup of another, and stops the shim of a third.
pub(super) fn s3_hold_up_containers(vm: &Vm) {
    let pid = vm.client().service("asleep").pid.expect("it runs");
    look(vm, &format!("kill=STOP:{pid}"));
    look(vm, &format!("put={}/cgroup.freeze:1", cgroup("ice")));
    let shim = look(vm, &format!("cat={}/cgroup.procs", cgroup("shims/haunted")));
    let shim =
        shim.split_whitespace().next().unwrap_or_else(|| panic!("the shim is not in its cgroup: {shim:?}"));
    look(vm, &format!("kill=STOP:{shim}"));
    eventually("all three to be held up", || {
        let is_stopped = |pid: &str| look(vm, &format!("cat=/proc/{pid}/stat")).contains(") T ");
        let frozen = look(vm, &format!("cat={}/cgroup.events", cgroup("ice"))).contains("frozen 1");
        frozen && is_stopped(&pid.to_string()) && is_stopped(shim)
    });
}

/// Powers off. Returns the events of that.
fn power_off(vm: &mut Vm) -> Vec<Event> {
    let newest = vm.client().events().last().map_or(0, |event| event.seq);
    let events = vm.client().follow_events(newest + 1);
    let begun = Instant::now();
    vm.poweroff();
    let took = begun.elapsed();
    // The deadline, and under emulation as much again for mounts and the rest.
    assert!(took < DEADLINE * 2 + Duration::from_secs(10), "{took:?}");
    events.rest().0
}

/// Powers off and looks at the messages on the way.
pub(super) fn s1_s3_the_end(vm: &mut Vm) {
    let events = power_off(vm);
    s1_a_chain_stops_from_its_end(&events);
    s3_what_sleeps_ends_by_its_signal(&events);
    s3_the_deadline_names_whom_it_kills(&events);
    // Its process ended; what the stopped shim keeps is left, and said.
    let console = vm.console();
    assert!(console.contains("haunted") && console.contains("does not answer"), "{console}");
}

/// The same of [`short_services`].
pub(super) fn s1_s3_a_chain_and_a_deaf_container_end(vm: &mut Vm) {
    let events = power_off(vm);
    s1_a_chain_stops_from_its_end(&events);
    s3_the_deadline_names_whom_it_kills(&events);
}

fn s1_a_chain_stops_from_its_end(events: &[Event]) {
    let first = |name: &str, state: &str| {
        let is = |event: &&Event| event.service == name && event.state == state;
        events.iter().find(is).unwrap_or_else(|| panic!("{name} was never {state}: {events:#?}"))
    };
    for (earlier, later) in [("c", "b"), ("b", "a")] {
        let (down, told) = (first(earlier, "stopped"), first(later, "stopping"));
        assert!(down.seq < told.seq && down.at() <= told.at(), "{down:?} {told:?}");
        assert!(down.at() - first(earlier, "stopping").at() >= Duration::from_millis(200), "{down:?}");
    }
}

/// A process that only sleeps wakes up.
fn s3_what_sleeps_ends_by_its_signal(events: &[Event]) {
    for name in ["asleep", "ice"] {
        let told: Vec<&Event> = events.iter().filter(|event| event.service == name).collect();
        assert!(told.iter().any(|event| event.state == "stopped"), "{told:#?}");
        assert!(!told.iter().any(|event| event.message.contains("killed")), "{told:#?}");
    }
}

fn s3_the_deadline_names_whom_it_kills(events: &[Event]) {
    let passed = events
        .iter()
        .find(|event| event.service.is_empty() && event.message.contains("total deadline"))
        .unwrap_or_else(|| panic!("nobody said whom it killed: {events:#?}"));
    let (_, names) = passed.message.split_once("killing ").expect("whom");
    assert!(names.contains("deaf"), "{passed:?}");
    for name in ["a", "b", "c", "asleep", "ice"] {
        assert!(!names.split([' ', ',']).any(|word| word == name), "{passed:?}");
    }
    let killed = "the total deadline has passed: killed";
    assert!(
        events.iter().any(|event| event.service == "deaf" && event.message.contains(killed)),
        "{events:#?}"
    );
}
