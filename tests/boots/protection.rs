//! The resources that PID 1 keeps for itself: memory and PIDs that no service can take from it, and a
//! hardware watchdog that starts the machine again when it hangs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kelson_tests::chaos::Toll;
use kelson_tests::{Service, Vm, until};

/// A machine that an emulator runs, full of processes that fork.
const LONG: Duration = Duration::from_secs(180);
/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";
/// Runs steps on the machine.
const LOOK: &str = "process: {command: [$PROGRAM, serve]}";
/// How long nobody has to feed the watchdog until it starts the machine again.
const TIMEOUT: Duration = Duration::from_secs(10);
/// 2,000 processes are quickly made: 300 are one service's share, and 200 are left by all of them.
const MACHINE: &str = "
modules: [softdog]
watchdog: {timeout: 10s}
sysctl: {kernel.threads-max: '2000'}
";

/// Performs steps as a command of `look`, and returns their output.
#[track_caller]
fn look(vm: &Vm, step: &str) -> String {
    vm.ctl(&["exec", "look", "--", STEPS, step]).ok().stdout.trim().to_owned()
}

/// A line of `/proc/1/status`, in KiB.
#[track_caller]
fn memory(vm: &Vm, name: &str) -> u64 {
    let status = look(vm, "cat=/proc/1/status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no {name} in {status}"))
}

#[track_caller]
fn oom_score(vm: &Vm, pid: i32) -> String {
    look(vm, &format!("cat=/proc/{pid}/oom_score_adj"))
}

/// A number in a file of the services' cgroups.
#[track_caller]
fn cgroup(vm: &Vm, file: &str) -> u64 {
    let text = look(vm, &format!("cat=/sys/fs/cgroup/kelson/{file}"));
    text.parse().unwrap_or_else(|error| panic!("{file}: {error}: {text}"))
}

/// Those that nobody harmed.
#[track_caller]
fn unharmed(vm: &Vm) -> BTreeMap<String, Service> {
    let harmless = |service: &Service| ["look", "web", "apid", "logd"].contains(&service.name.as_str());
    let all = vm.services().into_iter().filter(harmless);
    all.map(|service| (service.name.clone(), service)).collect()
}

#[test]
fn neither_a_hog_nor_a_fork_bomb_takes_from_pid_1_what_it_needs() {
    they_take_nothing(1);
}

/// The name says to hack/chaos that it is one of its own.
mod hostile {
    #[test]
    #[ignore = "minutes: hack/chaos runs it"]
    fn long_twenty_hogs_and_fork_bombs_take_nothing_from_pid_1() {
        super::they_take_nothing(20);
    }
}

#[track_caller]
fn is_safe(vm: &Vm, logd: i32) {
    assert_eq!(oom_score(vm, 1), "-1000");
    assert_eq!(oom_score(vm, logd), "-900");
    assert_eq!(look(vm, "report-of=oom_score_adj"), "oom_score_adj 0");
    assert_ne!(memory(vm, "VmLck"), 0);
}

/// The bombs take all processes that they can have, and PID 1 executes itself meanwhile. Returns when it did.
#[track_caller]
fn bombs_go_off(vm: &Vm, round: u32) -> Instant {
    // One is held by its share, the other by what all of them have to leave: then no service gets another process.
    vm.ctl(&["start", "bomb", "--wait"]).ok();
    assert_eq!((cgroup(vm, "bomb/pids.max"), cgroup(vm, "pids.max")), (300, 1800));
    until("the bomb to have its share", LONG, || (cgroup(vm, "bomb/pids.current") == 300).then_some(()));
    vm.ctl(&["start", "big", "--wait"]).ok();
    let refused = until("the services to have all that they can have", LONG, || {
        let tried = vm.ctl(&["exec", "look", "--", STEPS]);
        (tried.status != 0).then_some(tried)
    });
    assert!(refused.stderr.contains("as many processes as its pidsMax allows"), "{refused:?}");

    // PID 1 has what it needs: it looks for a program, tries it in a child, and goes on as that.
    vm.ctl(&["reexec"]).ok();
    let executed = Instant::now();
    until("the next life", LONG, || {
        let events = vm.ctl(&["events"]).stdout;
        events.contains(&format!("PID 1 is in its life number {}", round + 1)).then_some(())
    });
    vm.ctl(&["stop", "big", "--wait"]).ok();
    vm.ctl(&["start", "late", "--wait"]).ok();
    vm.ctl(&["stop", "bomb", "--wait"]).ok();
    for name in ["bomb", "big"] {
        let stopped = vm.client().service(name);
        assert!(stopped.stopped && stopped.state == "stopped", "{stopped:?}");
    }
    executed
}

/// Waits until the kernel has ended a service for the memory that it took, `times` times.
#[track_caller]
fn ended_for_memory(vm: &Vm, name: &str, times: u32) {
    let times = usize::try_from(times).expect("a small number");
    // Until the kernel has made up its mind a machine without memory is slow to answer.
    let events = until("the kernel to end it", LONG, || {
        let events = vm.ctl(&["-o", "json", "events", name]);
        (events.stdout.matches("\"failed\"").count() == times).then_some(events.stdout)
    });
    let killed = |line: &&str| line.contains("killed by SIGKILL") && line.contains("out of memory");
    assert_eq!(events.lines().filter(killed).count(), times, "{events}");
}

#[track_caller]
fn they_take_nothing(times: u32) {
    let mut vm = Vm::builder("protection")
        .longest(Duration::from_secs(3600))
        .machine(MACHINE)
        // The bomb runs beside PID 1, and not in turn with it.
        .qemu("-smp 2")
        // It takes its time to use up more.
        .append("mem=640M")
        .service("look", LOOK)
        .runs("web", "serve")
        // More than the machine has, and nothing limits it.
        .runs_with("hog", "hog=400, hog=400, hang", "start: manual\nrestart: {policy: once}")
        .runs_with("bomb", "bomb", "start: manual")
        .runs_with("big", "bomb", "start: manual\nresources: {pidsMax: 1000000}")
        .runs_with(
            "limited",
            "hog=64, hang",
            "start: manual\nrestart: {policy: once}\n\
             resources: {memoryMax: 32Mi}",
        )
        .runs_with("late", "serve", "start: manual")
        .boot();
    vm.wait_up(&["look", "web"]);
    let armed = "the hardware watchdog is armed: 10 s, \"Software Watchdog\"";
    assert!(vm.client().events().iter().any(|event| event.message == armed));
    assert!(vm.console().contains(armed));
    let before = unharmed(&vm);
    let (logd, web) = (vm.client().service("logd").pid, vm.client().service("web").pid);
    let safe = |vm: &Vm| is_safe(vm, logd.expect("it runs"));
    safe(&vm);
    assert_eq!(oom_score(&vm, web.expect("it runs")), "0");

    // One that takes more memory than its file permits.
    vm.ctl(&["start", "limited"]).ok();
    ended_for_memory(&vm, "limited", 1);
    let mut limited = Toll::of("memory-limit");
    limited.compare(&before, &unharmed(&vm));
    assert!(limited.is_nothing(), "{limited:#?}");

    let (mut bombs, mut hogs) = (Toll::of("fork-bomb"), Toll::of("memory-hog"));
    let mut again = Instant::now();
    while bombs.times < times {
        bombs.times += 1;
        let round = bombs.times;
        let executed = bombs.attempt(|| {
            let executed = bombs_go_off(&vm, round);
            safe(&vm);
            executed
        });
        let Some(executed) = executed else { break };
        again = executed;
        bombs.compare(&before, &unharmed(&vm));

        hogs.times += 1;
        let round = hogs.times;
        let ended = hogs.attempt(|| {
            vm.ctl(&["start", "hog"]).ok();
            ended_for_memory(&vm, "hog", round);
        });
        if ended.is_none() {
            break;
        }
        hogs.compare(&before, &unharmed(&vm));
    }
    println!("{bombs}\n{hogs}");
    assert!(bombs.is_nothing() && hogs.is_nothing(), "{bombs:#?}\n{hogs:#?}");

    // The next incarnation has fed it for longer than it waits.
    std::thread::sleep((TIMEOUT * 3 / 2).saturating_sub(again.elapsed()));
    assert_eq!(look(&vm, "cat=/sys/class/watchdog/watchdog0/state"), "active");
    vm.poweroff();
    assert!(!vm.console().contains("softdog: Initiating system reboot"));
}

#[test]
fn a_shutdown_that_hangs_ends_in_a_reset() {
    let frozen = "/sys/fs/cgroup/kelson/freezer";
    let mut vm = Vm::builder("watchdog")
        .machine("modules: [softdog]\nwatchdog: {timeout: 6s}")
        .service("look", LOOK)
        // With its own end it takes PID 1 along into a sleep that nothing ends.
        .runs(
            "freezer",
            &format!("await=TERM, 'put={frozen}/cgroup.procs:1', 'put={frozen}/cgroup.freeze:1', hang"),
        )
        .boot();
    vm.wait_up(&["look", "freezer"]);
    // The connection ends with the machine, or before.
    vm.ctl(&["poweroff"]);
    assert!(!vm.wait_end(), "it was powered off: {}", vm.said());
    let console = vm.console();
    assert!(console.contains("softdog: Initiating system reboot"), "{console}");
    assert!(!console.contains("powering off"), "{console}");
}
