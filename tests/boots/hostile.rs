//! A machine in hostile surroundings, one after the other in one boot: no entropy, a clock that jumps by years, `/run` and the
//! state full, logs that can no longer be written, sockets that vanish, thousands of ends at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kelson_tests::chaos::{Ledger, Toll};
use kelson_tests::{Event, PATIENCE, Service, Vm, eventually, until};

const STEPS: &str = "/etc/kelson/kelson-test-program";
const WRITERS: usize = 4;
/// Neither the processor nor the bootloader is believed in what it gives.
const NO_ENTROPY: &str = "random.trust_cpu=off random.trust_bootloader=off";
/// 31 years and 8 months.
const YEARS: i64 = 1_000_000_000;

fn writer(n: usize) -> String {
    format!("n-{n}")
}

/// Runs steps on the machine, as root, beside the service `look`.
#[track_caller]
fn look(vm: &Vm, steps: &[&str]) -> String {
    let mut words = vec!["exec", "look", "--", STEPS];
    words.extend(steps);
    vm.ctl(&words).ok().stdout
}

#[track_caller]
fn watched(vm: &Vm) -> BTreeMap<String, Service> {
    let all = vm.services().into_iter().filter(|now| !now.builtin && now.name != "restless");
    all.map(|now| (now.name.clone(), now)).collect()
}

/// The last line that each writer has written.
#[track_caller]
fn last_lines(vm: &Vm) -> [u64; WRITERS] {
    let files: Vec<String> = (0..WRITERS).map(|n| format!("cat=/tmp/{}", writer(n))).collect();
    let said = look(vm, &files.iter().map(String::as_str).collect::<Vec<_>>());
    let all = said.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    all.collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("not a number of each writer: {said}"))
}

#[track_caller]
fn newest(vm: &Vm) -> u64 {
    vm.client().events().last().map_or(0, |event| event.seq)
}

#[track_caller]
fn wait_event(vm: &Vm, after: u64, text: &str) -> Event {
    vm.client().follow_events(after + 1).find(text, PATIENCE * 2, |event| event.message.contains(text))
}

type Fault = fn(&Vm);

/// The faults of a machine, each with its name in the table of docs/reliability.md.
const FAULTS: [(&str, Fault); 6] = [
    ("clock-set-by-years", clock_jumps),
    ("run-full", run_is_full),
    ("state-full", state_is_full),
    ("log-disk-read-only", logs_cannot_be_written),
    ("sockets-removed", sockets_vanish),
    ("a-thousand-ends", many_ends),
];

#[test]
fn long_a_machine_lives_through_hostile_surroundings() {
    lives_through(1);
}

#[test]
#[ignore = "a quarter of an hour: hack/chaos runs it"]
fn long_a_machine_lives_through_hostile_surroundings_twenty_times() {
    lives_through(20);
}

/// Nobody has random numbers before the kernel has gathered some by itself: keys of TLS, the runs' marks and jitter wait
/// for that, and nothing else does.
#[test]
#[ignore = "minutes: hack/chaos runs it"]
fn long_twenty_machines_without_entropy_come_up() {
    let mut toll = Toll::of("entropy-missing");
    while toll.times < 20 {
        toll.times += 1;
        let booted = toll.attempt(|| {
            let vm = Vm::builder("no-entropy")
                .append(NO_ENTROPY)
                .runs_with("db", "'notify=READY=1', serve", "readiness: notify")
                .runs_with("web", "serve", "depends: [{service: db}]")
                .boot();
            let _ = vm.ctl(&["wait", "db", "web", "apid", "--for", "up", "--timeout", "60s"]);
            vm
        });
        let Some(mut vm) = booted else { break };
        for service in vm.services() {
            toll.count_restarts(service.restarts);
            toll.count_lost(u64::from(!service.up), || format!("{service:?}"));
        }
        toll.attempt(|| vm.poweroff());
    }
    toll.tell();
}

/// How long an operator waits for each of some restarts, each of which is several lines of the kernel's log. The shortest
/// first; one that came to nothing is the longest.
fn restarts(vm: &Vm) -> Vec<Duration> {
    let one = || {
        let began = Instant::now();
        match vm.ctl(&["restart", "own", "--wait"]).status {
            0 => began.elapsed(),
            _ => Duration::MAX,
        }
    };
    let mut took: Vec<Duration> = (0..7).map(|_| one()).collect();
    took.sort();
    took
}

/// Runs a command until it is answered: a kernel that waits for its console may not hear the network for
/// seconds.
#[track_caller]
fn answered(vm: &Vm, words: &[&str]) -> String {
    until(&format!("an answer to {words:?}"), PATIENCE * 4, || {
        let said = vm.ctl(words);
        (said.status == 0).then_some(said.stdout)
    })
}

/// A process that writes to the kernel's log then may be the one that prints it, and waits for a line that
/// nobody takes: seconds for each line.
#[test]
#[ignore = "minutes: hack/chaos runs it"]
fn long_a_console_that_nobody_reads_holds_nobody_up() {
    const TIMES: u32 = 20;
    let mut vm = Vm::builder("console-unread")
        .longest(Duration::from_secs(1800))
        .console_reader()
        .runs("look", "serve")
        .runs("own", "serve")
        .boot();
    vm.wait_up(&["look", "own"]);
    wait_event(&vm, 0, "the boot is over");
    let read = restarts(&vm);
    vm.read_console(false);
    // Nearly as much as it takes, and then until a process that writes a line has to wait for it.
    let line = |length| format!("put=/dev/kmsg:<30>{}", "x".repeat(length));
    let many = vec![line(800); (52 << 10) / 850];
    look(&vm, &many.iter().map(String::as_str).collect::<Vec<_>>());
    until("the console to be full", PATIENCE * 4, || {
        let began = Instant::now();
        vm.ctl(&["exec", "look", "--", STEPS, &line(20)]);
        (began.elapsed() > Duration::from_secs(1)).then_some(())
    });
    let others = |vm: &Vm| -> BTreeMap<String, Service> {
        let listed: Vec<Service> =
            serde_json::from_str(&answered(vm, &["services", "-o", "json"])).expect("JSON");
        listed.into_iter().filter(|now| now.name != "own").map(|now| (now.name.clone(), now)).collect()
    };
    let before = others(&vm);
    let mut toll = Toll::of("serial-line-unread");
    while toll.times < TIMES {
        toll.times += 1;
        // The kernel has the processor to itself, interrupts and all, for as long as a line takes; after two such lines PID 1
        // gives it none but warnings.
        let after = toll.attempt(|| {
            until("restarts to be answered as quickly as with a console that is read", PATIENCE * 4, || {
                (restarts(&vm)[3] < read[3] * 4 + Duration::from_millis(200)).then_some(())
            });
            let dmesg = answered(&vm, &["dmesg"]);
            assert!(!dmesg.contains("lines of this log were lost"), "{dmesg}");
            others(&vm)
        });
        let Some(after) = after else { break };
        toll.compare(&before, &after);
    }
    vm.read_console(true);
    toll.attempt(|| vm.poweroff());
    toll.tell();
}

#[track_caller]
fn lives_through(times: u32) {
    let mut builder = Vm::builder("hostile")
        .longest(Duration::from_secs(3600))
        .append(NO_ENTROPY)
        // `restless` keeps the host from being healthy, and twenty rounds may take longer than the usual deadline.
        .machine(
            "mounts: [{source: tmpfs, target: /var/log/kelson, type: tmpfs, options: [size=64M]}]\n\
             health: {deadline: 6h}\n",
        )
        .runs("look", "serve")
        .runs_with("told", "'notify=READY=1', serve", "readiness: notify")
        .runs_with(
            "checked",
            "serve",
            "health: [{name: a, exec: {command: [$PROGRAM]}, interval: 1s, timeout: 60s}]",
        )
        .runs_with("restless", "exit=3", "restart: {delay: 1s, maxDelay: 1s}");
    for n in 0..WRITERS {
        let steps = format!("'beat=50ms:60:/tmp/{}'", writer(n));
        let yaml = format!("process: {{command: [$PROGRAM, {steps}]}}\nlogs: {{maxSize: 16Mi}}");
        builder = builder.service(&writer(n), &yaml);
    }
    let mut vm = builder.boot();
    vm.wait_up(&["look", "told", "checked", "n-0", "n-1", "n-2", "n-3"]);
    // The boot says so of itself, and that is none of what a fault makes it say.
    wait_event(&vm, 0, "the boot is over");
    let before = watched(&vm);
    let mut tolls = FAULTS.map(|(name, _)| Toll::of(name));
    // The lines that were written during each fault: those up to the next one's first.
    let mut begun: Vec<(usize, [u64; WRITERS])> = Vec::new();
    'rounds: for _ in 0..times {
        for (at, (_, fault)) in FAULTS.iter().enumerate() {
            let toll = &mut tolls[at];
            begun.push((at, last_lines(&vm).map(|last| last + 1)));
            toll.times += 1;
            if toll.attempt(|| fault(&vm)).is_none() {
                break 'rounds;
            }
            toll.compare(&before, &watched(&vm));
        }
    }
    count_lines(&vm, &begun, &mut tolls);
    let events = vm.client().events();
    tolls.iter().for_each(|toll| println!("{toll}"));
    assert!(tolls.iter().all(|toll| toll.times == times && toll.is_nothing()), "{tolls:#?}");
    assert!(events.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1), "{events:#?}");
    vm.poweroff();
}

/// Counts, for each fault, the lines that were written during it and are not once and in order in the logs. `begun` names
/// each fault with the first line of each writer.
#[track_caller]
fn count_lines(vm: &Vm, begun: &[(usize, [u64; WRITERS])], tolls: &mut [Toll]) {
    let lasts = last_lines(vm);
    for (n, last) in lasts.into_iter().enumerate() {
        let name = writer(n);
        let beats = |words: &[&str]| -> Vec<u64> {
            let text = vm.ctl(words).ok().stdout;
            text.lines().filter_map(|l| l.split_once("beat ")?.1.split(' ').next()?.parse().ok()).collect()
        };
        eventually("its last line to be in its log", || {
            beats(&["logs", "--tail", "1", &name]).last() >= Some(&last)
        });
        let numbers = beats(&["logs", &name]);
        let mut counted = 0;
        for (which, (at, firsts)) in begun.iter().enumerate() {
            // Events before the first fault count as the first one's, too.
            let from = if which == 0 { 1 } else { firsts[n] };
            let to = begun.get(which + 1).map_or(last, |(_, next)| next[n] - 1);
            let own = numbers.iter().copied().filter(|number| (from..=to).contains(number));
            let wrong = Ledger::of(own, from, to..=to).wrong();
            counted += wrong;
            tolls[*at].count_lines(wrong, || format!("{name}: {wrong} of the lines {from} to {to}"));
        }
        let whole = Ledger::of(numbers.iter().copied().filter(|number| *number <= last), 1, last..=last);
        assert_eq!(whole.wrong(), counted, "{name}: lines are in another order than they were written in");
    }
}

/// All that waits for a time goes by another clock.
fn clock_jumps(vm: &Vm) {
    // Ages go by a clock that nobody sets. Our certificate is still good then.
    look(vm, &["clock=10800"]);
    let status: serde_json::Value = vm.ctl(&["status", "checked", "-o", "json"]).ok().json();
    let lasts = status["lastsMs"].as_f64().unwrap_or_else(|| panic!("{status:#}"));
    assert!(lasts < 10_800_000.0, "{status:#}");
    look(vm, &["clock=-10800"]);
    let restarts = |vm: &Vm| vm.client().service("restless").restarts;
    let (from, after) = (restarts(vm), newest(vm));
    let (forward, back) = (format!("clock={YEARS}"), format!("clock={}", -2 * YEARS));
    look(vm, &[&forward, "sleep=5s", &back, "sleep=5s", &forward]);
    let by = restarts(vm) - from;
    // A second and its jitter each; under emulation a start takes its time, too.
    assert!((3..=20).contains(&by), "restarted {by} times in about ten seconds");
    let checked = vm.client().service("checked");
    assert_eq!(checked.healthy, Some(true), "{checked:?}");
    let told: Vec<Event> = vm.client().events().into_iter().filter(|event| event.seq > after).collect();
    assert!(told.iter().all(|event| event.service == "restless" || event.service == "look"), "{told:#?}");
}

/// The state has a file system of its own.
fn run_is_full(vm: &Vm) {
    let (from, after) = (vm.client().service("restless").restarts, newest(vm));
    look(vm, &["fill=/run/ballast"]);
    vm.client().wait_for("restless", "to be restarted", PATIENCE * 2, |now| now.restarts > from + 2);
    vm.ctl(&["reexec"]).ok();
    look(vm, &["remove=/run/ballast"]);
    let told = vm.client().events();
    let told = told.iter().filter(|event| event.seq > after && event.message.contains("cannot be written"));
    assert_eq!(told.count(), 0);
}

/// A service that is known already has its place there.
fn state_is_full(vm: &Vm) {
    let (from, after) = (vm.client().service("restless").restarts, newest(vm));
    look(vm, &["fill=/run/kelson/state/ballast"]);
    vm.client().wait_for("restless", "to be restarted", PATIENCE * 2, |now| now.restarts > from + 2);
    let refused = vm.ctl(&["reexec"]).expect(1);
    assert!(refused.stderr.contains("No space left on device"), "{refused:?}");
    look(vm, &["remove=/run/kelson/state/ballast"]);
    wait_event(vm, after, "the state of the services is written again");
    vm.ctl(&["reexec"]).ok();
}

fn logs_cannot_be_written(vm: &Vm) {
    let after = newest(vm);
    look(vm, &["cover=/var/log/kelson"]);
    wait_event(vm, after, "Read-only file system; logs stay in /run/kelson/log");
    eventually("logs below the runtime folder", || look(vm, &["list=/run/kelson/log"]).contains("n-0.log"));
    look(vm, &["uncover=/var/log/kelson"]);
    wait_event(vm, after, "/var/log/kelson: log files are written again");
}

fn sockets_vanish(vm: &Vm) {
    for socket in ["init.sock", "log.sock"] {
        let after = newest(vm);
        // Its own answer comes over a connection that is there already.
        vm.ctl(&["exec", "look", "--", STEPS, &format!("remove=/run/kelson/{socket}")]);
        eventually("it to be made again", || {
            let listed = vm.ctl(&["exec", "look", "--", STEPS, "list=/run/kelson"]);
            listed.stdout.lines().any(|line| line == socket)
        });
        wait_event(vm, after, &format!("/run/kelson/{socket} was removed"));
    }
    eventually("logs to be told", || vm.ctl(&["logs", "--tail", "1", "n-0"]).stdout.lines().count() == 1);
}

fn many_ends(vm: &Vm) {
    look(vm, &["storm=1000"]);
    vm.ctl(&["services"]).ok();
}
