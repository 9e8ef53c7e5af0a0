//! V1: a crash of PID 1 costs no service anything, whatever the crash and whenever it comes.

use std::collections::BTreeMap;
use std::time::Duration;

use kelson_tests::chaos::ledger::{Ledger, number_after};
use kelson_tests::{Host, HostBuilder, PATIENCE, eventually, until};

type Seen = BTreeMap<String, (Option<i32>, u32, bool, Option<bool>, String)>;

fn seen(host: &Host) -> Seen {
    let all = host.services().into_iter();
    all.map(|now| (now.name, (now.pid, now.restarts, now.up, now.healthy, now.state))).collect()
}

fn several() -> HostBuilder {
    Host::builder()
        .crash_limit("1000/1m")
        .runs("beats", "'beat=5ms:40:$DIR/beats'")
        .runs_with("told", "notify=READY=1, serve", "readiness: notify")
        .runs_with("pauses", "exit=3", "restart: {delay: 10m, maxDelay: 10m}")
        .runs_with("job", "print=done", "type: oneshot")
        .runs_with("waits", "serve", "depends: [{path: $DIR/never}]")
        .runs_with("checked", "serve", "health: [{name: a, exec: {command: [$PROGRAM]}, interval: 200ms}]")
}

#[track_caller]
fn settle(host: &Host) -> Seen {
    host.wait_all_up(&["beats", "told", "checked"]);
    host.wait_finished("job");
    host.wait_state("pauses", "backoff");
    host.wait_state("waits", "waiting");
    seen(host)
}

/// The numbers that were written, from the first to the last, without a gap or a repeat. The host has stopped.
#[track_caller]
fn nothing_is_lost(host: &Host) {
    let log = host.log_text("beats");
    let board = host.wait_file("beats");
    let last: u64 = board.split_whitespace().next().and_then(|n| n.parse().ok()).expect("the last number");
    let numbers = log.lines().filter_map(|line| number_after(line, " beat "));
    // The service may have been ended between a line and its note of it.
    let ledger = Ledger::of(numbers, 1, last..=last + 1);
    assert_eq!(ledger.wrong(), 0, "{ledger:?} of {last}:\n{log}");
}

/// Resolves the addresses of a backtrace with addr2line(1).
fn resolved(backtrace: &str) -> String {
    let addresses = backtrace.split_whitespace().filter(|word| word.starts_with("0x"));
    let mut command = std::process::Command::new("addr2line");
    command.args(["--functions", "--demangle", "--exe"]).arg(kelson_tests::paths::binary("init"));
    let output = command.args(addresses).output().expect("addr2line can be started");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn v1_no_signal_of_a_fault_costs_a_service_anything() {
    let mut host = several().start();
    let before = settle(&host);
    let mut events = host.follow_events(1);
    events.each_once(1..=1, PATIENCE);
    let pid = host.init_pid();
    let all =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];
    for signal in all {
        host.crash(|| host.signal(signal));
        assert_eq!(seen(&host), before, "after signal {signal}");
        assert_eq!(host.init_pid(), pid);
    }
    let told = host.events();
    for name in ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"] {
        let wanted = format!("PID 1 crashed and goes on: {name} from outside");
        assert!(told.iter().any(|event| event.message.starts_with(&wanted)), "{name}: {told:#?}");
    }
    let backtrace = told.iter().rev().find(|event| event.message.contains("backtrace in version"));
    let names = resolved(&backtrace.expect("an event").message);
    // A released program is stripped: there addr2line needs a build of the same sources with its symbols.
    let stripped = names.lines().all(|line| line.starts_with("??"));
    assert!(stripped || names.contains("tokio::runtime"), "{backtrace:?}");
    assert!(names.lines().count() >= 8, "less than four addresses: {backtrace:?}");
    assert!(host.console().contains("PID 1 crashed and goes on"));
    let version: serde_json::Value = host.ctl(&["-o", "json", "version"]).ok().json();
    assert_eq!(
        (&version["server"]["crashes"], &version["server"]["reexecs"]),
        (&all.len().into(), &0.into())
    );
    // A follower of the events misses none.
    events.each_once(2..=host.newest_event(), PATIENCE);
    host.poweroff();
    nothing_is_lost(&host);
}

#[test]
fn v1_no_fault_of_its_own_costs_a_service_anything() {
    let mut host = several().faulty().start();
    let before = settle(&host);
    let all = [
        ("panic", "panic at api/src/server/faults.rs:"),
        ("panic-in-thread", "panic in its thread faulty at api/src/server/faults.rs:"),
        ("abort", "SIGABRT by itself"),
        ("segv", "SIGSEGV at address 0x10"),
        ("stack-overflow", "SIGSEGV at address 0x"),
    ];
    for (fault, words) in all {
        let newest = host.newest_event();
        host.crash(|| host.fault(fault));
        assert_eq!(seen(&host), before, "after {fault}");
        host.wait_event(newest, words, |event| {
            event.message.starts_with(&format!("PID 1 crashed and goes on: {words}"))
        });
    }
    host.poweroff();
    nothing_is_lost(&host);
}

#[test]
fn v1_a_main_loop_that_stands_still_is_noticed() {
    let mut host = several().faulty().start();
    let before = settle(&host);
    for fault in ["deadlock", "spin"] {
        let newest = host.newest_event();
        host.crash(|| host.fault(fault));
        assert_eq!(seen(&host), before, "after {fault}");
        host.wait_event(newest, "of the loop", |event| {
            event.message.contains("its main loop stood still for 10 s")
        });
    }
    host.poweroff();
    nothing_is_lost(&host);
}

/// Wherever the boot stands: it comes to its end.
#[test]
fn v1_a_crash_while_booting_loses_no_service() {
    let mut crashes = 0;
    for after in (0..60).step_by(3) {
        let mut host = several().spawn();
        let init = host.init_pid();
        // Not before its handlers stand: until then it is a process like any other.
        until("PID 1 to be ready for a crash", PATIENCE, || {
            let status = std::fs::read_to_string(format!("/proc/{init}/status")).ok()?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
            (caught >> (libc::SIGSEGV - 1) & 1 == 1).then_some(())
        });
        std::thread::sleep(Duration::from_millis(after));
        host.signal(libc::SIGSEGV);
        // A question that is overtaken by the crash is asked again.
        eventually("the services to be known", || {
            let services = host.ctl(&["services"]);
            services.status == 0 && services.stdout.contains("waits")
        });
        settle(&host);
        // A signal that comes between two programs is nobody's.
        crashes += host
            .events()
            .iter()
            .filter(|event| event.message.starts_with("PID 1 crashed and goes on"))
            .count();
        let log = host.log_text("job");
        assert_eq!(log.matches("done").count(), 1, "after {after} ms: the one-shot ran once:\n{log}");
        host.poweroff();
        nothing_is_lost(&host);
    }
    assert!(crashes >= 10, "{crashes}");
}

/// A spawner thread is under the seccomp filter that its children inherit. `execve` keeps a filter, so such a thread must
/// not execute the next incarnation.
#[test]
fn v1_a_crash_under_a_seccomp_filter_leaves_pid_1_without_one() {
    let field = |status: String, key: &str| -> String {
        let status = std::fs::read_to_string(status).expect("it is there");
        let value = status.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel shows it");
        value.trim().to_owned()
    };
    let mut host = Host::builder()
        .runs_with("first", "serve", "restart: {policy: once}")
        .runs_with("free", "serve", "security: {seccomp: unconfined}")
        .up(&["first", "free"]);
    let init = host.init_pid();
    let of =
        |host: &Host, name| field(format!("/proc/{}/status", host.outer_pid(host.pid_of(name))), "Seccomp:");
    let own = field(format!("/proc/{init}/status"), "Seccomp:");
    assert_eq!((of(&host, "first").as_str(), of(&host, "free")), ("2", own.clone()));
    let threads = std::fs::read_dir(format!("/proc/{init}/task")).expect("PID 1 is there");
    let threads = threads.map(|thread| thread.expect("a thread").path());
    let spawner = threads
        .filter(|thread| field(thread.join("status").display().to_string(), "Name:").ends_with("-seccomp"))
        .find_map(|thread| thread.file_name()?.to_str()?.parse::<i32>().ok())
        .expect("a thread under a filter");
    assert_eq!(field(format!("/proc/{init}/task/{spawner}/status"), "Seccomp:"), "2");
    host.crash(|| {
        // SAFETY: numbers, of a thread of the host.
        unsafe { libc::syscall(libc::SYS_tgkill, init, spawner, libc::SIGSEGV) };
    });
    assert_eq!(field(format!("/proc/{init}/status"), "Seccomp:"), own);
    host.ctl(&["restart", "free", "first"]).ok();
    host.wait_all_up(&["first", "free"]);
    assert_eq!((of(&host, "first").as_str(), of(&host, "free")), ("2", own));
    host.poweroff();
}

/// A follower that begins while PID 1 crashes gets everything all the same.
#[test]
fn followers_that_begin_in_a_crash_get_every_event() {
    let mut host = several().start();
    settle(&host);
    for _ in 0..5 {
        let last = host.events().last().expect("there are events").seq;
        let before: Vec<_> = (0..2).map(|_| host.follow_events(1)).collect();
        let mut after = Vec::new();
        host.crash(|| {
            host.signal(libc::SIGSEGV);
            after.extend((0..2).map(|_| host.follow_events(1)));
        });
        for mut events in before.into_iter().chain(after) {
            events.each_once(1..=last, PATIENCE);
        }
    }
    host.poweroff();
}
