//! The file system of the runtime folder is full: known records are written all the same, new ones are kept
//! until there is room, and both are reported.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use kelson_tests::{Host, eventually};

use super::Fault;
use super::siege::told_since;

pub const FAULT: Fault =
    Fault { name: "run-full", host: |builder| builder.memory("run", "8m"), inject: fill_run };

const UNWRITTEN: &str = "the state of the services cannot be written";
const WRITTEN: &str = "the state of the services is written again";

/// Takes all room of the file system that the file is on.
#[track_caller]
fn fill(file: &std::path::Path) {
    use std::io::Write as _;
    let mut ballast = fs::File::create(file).expect("the runtime folder");
    for size in [1 << 16, 1 << 12, 1] {
        while ballast.write(&vec![b'.'; size]).is_ok_and(|written| written > 0) {}
    }
}

fn fill_run(host: &Host) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let late = format!("own-late-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let newest = host.newest_event();
    let ballast = host.path("run/ballast");
    fill(&ballast);
    // A service that is known already can be stopped and started.
    let told = host.pid_of("told");
    host.write_service(&late, "process: {command: [$PROGRAM, 'notify=READY=1', serve]}\nreadiness: notify");
    host.signal(libc::SIGHUP);
    host.wait_event(newest, "that it is full", |event| event.message.contains(UNWRITTEN));
    host.wait_up(&late);
    host.ctl(&["restart", &late, "--wait"]).ok();
    assert_eq!(host.pid_of("told"), told);
    let refused = host.ctl(&["reexec"]).expect(1);
    assert!(refused.stderr.contains("No space left on device"), "{refused:?}");
    assert_eq!(told_since(host, newest, UNWRITTEN), 1, "said once: {:#?}", host.events());

    fs::remove_file(&ballast).expect("it is there");
    host.wait_event(newest, "that there is room again", |event| event.message.contains(WRITTEN));
    let pid = host.pid_of(&late);
    host.ctl(&["reexec"]).ok();
    assert_eq!((host.pid_of(&late), host.service(&late).restarts), (pid, 0));
    let events = host.events();
    assert!(events.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1), "{events:#?}");
    assert!(events.iter().any(|event| event.message.contains(UNWRITTEN)), "it was written, too");
    host.remove_service(&late);
    host.signal(libc::SIGHUP);
    eventually("it to be gone", || host.services().iter().all(|service| service.name != late));
}

#[test]
fn hostile_a_full_runtime_folder_loses_no_event_and_no_end_over_a_reexec() {
    let mut host = Host::builder()
        .memory("run", "8m")
        .runs_with("restless", "exit=3", "restart: {delay: 5ms, maxDelay: 5ms}")
        .runs("idle", "serve")
        .start();
    host.wait_event(0, "the end of the boot", |event| event.message.contains("the boot is over"));
    let pid = host.pid_of("idle");
    let ballast = host.path("run/ballast");
    fill(&ballast);
    // Their records have their places; their ends and events have room for the next ones, and are kept after that.
    let newest = host.newest_event();
    host.wait_for("restless", "to be restarted", |now| now.restarts > 100);
    // A record for the next incarnation is written again, which takes room.
    fs::remove_file(&ballast).expect("it is there");
    host.ctl(&["reexec"]).ok();
    fill(&ballast);
    assert_eq!((host.pid_of("idle"), host.service("idle").restarts), (pid, 0));
    let restarts = host.service("restless").restarts;
    host.wait_for("restless", "to be restarted", |now| now.restarts > restarts + 100);
    let events = host.events();
    assert!(events.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1));
    assert_eq!(told_since(&host, newest, UNWRITTEN), 2, "once for each time that it was full: {events:#?}");
    host.poweroff();
}
