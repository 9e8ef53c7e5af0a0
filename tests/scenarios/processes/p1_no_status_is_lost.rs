//! P1: 500 children exit at one moment: no zombie is left, no exit status is lost or mixed up.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::time::Duration;

use kelson_tests::{Host, eventually, until};

#[track_caller]
fn no_zombies(host: &Host) {
    eventually("all zombies to be reaped", || host.processes().iter().all(|process| process.state != 'Z'));
}

#[test]
fn p1_five_hundred_orphans_leave_no_zombie() {
    let mut host = Host::builder()
        .runs_with("storm", "storm=500, storm=500, notify=READY=1, serve", "readiness: notify")
        .up(&["storm"]);
    // The last orphans may still be on their way to their end when the service is ready.
    eventually("the service alone to be left", || host.processes_with("storm=").len() == 1);
    no_zombies(&host);
    assert_eq!(host.service("storm").restarts, 0);
    // The service's own end is still told from theirs.
    host.kill(host.pid_of("storm"), libc::SIGKILL);
    host.wait_event(0, "of its end", |e| e.service == "storm" && e.message.contains("killed by SIGKILL"));
    host.poweroff();
}

#[test]
fn p1_five_hundred_services_end_at_once_each_with_its_own_status() {
    const COUNT: usize = 500;
    // A status of a process is a number up to 255: neighbours differ, and so do their ways to end.
    let end = |n: usize| match n % 4 {
        3 => (["HUP", "INT", "USR1", "USR2"][n / 4 % 4].to_owned(), true),
        _ => ((n % 256).to_string(), false),
    };
    let mut builder = Host::builder();
    for n in 0..COUNT {
        let (end, signal) = end(n);
        let step = if signal { "raise" } else { "exit" };
        builder = builder.runs_with(
            &format!("n-{n}"),
            &format!("'wait-path=$DIR/fifo', 'drain=$DIR/fifo', {step}={end}"),
            "type: oneshot\nstop: {timeout: 5s}",
        );
    }
    let mut host = builder.start();
    let fifo = host.path("fifo");
    let path = CString::new(fifo.as_os_str().as_encoded_bytes()).expect("a path without a zero");
    // SAFETY: the path is a C string that lives over the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    // Both ends at once, so that neither side's open waits for the other.
    let writer = OpenOptions::new().read(true).write(true).open(&fifo).expect("the FIFO");
    let mut reading = BTreeSet::new();
    until("all of them to read the FIFO", Duration::from_secs(90), || {
        for process in host.processes_with("drain=") {
            if !reading.contains(&process.pid)
                && fs::read_dir(format!("/proc/{}/fd", process.outer_pid))
                    .into_iter()
                    .flatten()
                    .flatten()
                    .any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == fifo))
            {
                reading.insert(process.pid);
            }
        }
        (reading.len() == COUNT).then_some(())
    });
    drop(writer);
    let services = until("all of them to have ended", Duration::from_secs(60), || {
        let services = host.services();
        services.iter().all(|s| s.builtin || ["finished", "failed"].contains(&&*s.state)).then_some(services)
    });
    for n in 0..COUNT {
        let name = format!("n-{n}");
        let service = services.iter().find(|service| service.name == name).expect("it is known");
        let said = match end(n) {
            (signal, true) => format!("killed by SIG{signal} "),
            (status, false) => format!("exited with status {status} "),
        };
        assert!(service.message.starts_with(&said), "\"{said}\" was to be said of {service:?}");
        let state = if said.contains("status 0 ") { "finished" } else { "failed" };
        assert_eq!(service.state, state, "{service:?}");
    }
    no_zombies(&host);
    assert!(host.processes_with("drain=").is_empty());
    host.poweroff();
}
