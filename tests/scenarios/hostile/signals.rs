//! Signals from services: those that mean nothing do nothing, and who has no right to send any is refused by the kernel.

use std::collections::BTreeSet;

use kelson_tests::{Host, HostBuilder};

use super::Fault;
use super::siege::told_since;

pub const FAULT: Fault = Fault { name: "signals", host: with_shooters, inject: shoot };

/// Those by which root ends the host, and has it read the files again, as init(8) says. And those of a fault of the process
/// itself: PID 1 takes them for one.
fn meaningful() -> BTreeSet<i32> {
    let asks = [libc::SIGHUP, libc::SIGTERM, libc::SIGINT, libc::SIGPWR];
    let realtime = (3..=5).map(|n| libc::SIGRTMIN() + n);
    let faults =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];
    asks.into_iter().chain(faults).chain(realtime).collect()
}

fn with_shooters(builder: HostBuilder) -> HostBuilder {
    let meaningful = meaningful();
    let harmless: Vec<i32> = (1..=64).filter(|signal| !meaningful.contains(signal)).collect();
    assert!(harmless.contains(&libc::SIGSTOP) && harmless.contains(&libc::SIGKILL));
    let steps: Vec<String> = harmless.iter().map(|signal| format!("'kill={signal}:1'")).collect();
    let all = vec![steps.join(", "); 20].join(", ");
    let manual = "type: oneshot\nstart: manual";
    builder.runs_with("own-root", &all, manual).runs_with(
        "own-nobody",
        "'kill=TERM:1'",
        &format!("user: '65534:65534'\n{manual}"),
    )
}

fn shoot(host: &Host) {
    let newest = host.newest_event();
    host.ctl(&["start", "own-root", "--wait"]).ok();
    let refused = host.ctl(&["start", "own-nobody", "--wait"]);
    assert_ne!(refused.status, 0, "{refused:?}");
    host.wait_log("own-nobody", "kill TERM:1: Operation not permitted");
    // Nothing but the two of them is reported.
    let told: Vec<_> = host.events().into_iter().filter(|event| event.seq > newest).collect();
    assert!(told.iter().all(|event| event.service.starts_with("own-")), "{told:#?}");
    assert_eq!(told_since(host, newest, "asked for by SIG"), 0);
}
