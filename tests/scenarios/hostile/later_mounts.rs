//! File systems that are mounted while a service with a read-only root runs, and one that tries to write to them.

use std::fs;
use std::path::Path;

use kelson_tests::{Host, PATIENCE, eventually, host, until};

use super::siege::inside;

/// USR1 has it write to each disk that it sees, USR2 mount a file system of its own, HUP open a file for writing and
/// keep it open.
const SEALED: &str = "start: manual
process:
  command:
  - /bin/bash
  - -c
  - |
    trap 'for disk in $DIR/disk*; do { : >$disk/try; } 2>/dev/null && echo wrote $disk; done; echo tried' USR1
    trap 'mount -t tmpfs none $DIR/own && echo mounted' USR2
    trap 'exec 9>$DIR/held/file && echo opened' HUP
    while :; do sleep 0.05; done
security: {readOnlyRoot: true}";

/// The options of what is mounted there, in the view of a process.
fn options(pid: i32, path: &Path) -> Option<String> {
    let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    let of = |line: &str| {
        let mut words = line.split(' ').skip(4);
        (words.next()? == path.to_str()?).then(|| words.next().map(str::to_owned))?
    };
    table.lines().rev().find_map(of)
}

#[track_caller]
fn is_read_only(pid: i32, path: &Path) {
    until(&format!("{} to be there, read-only", path.display()), PATIENCE, || {
        options(pid, path)?.starts_with("ro,").then_some(())
    });
}

#[test]
fn hostile_later_mounts_are_read_only_where_the_root_is_and_nowhere_else() {
    let mut host = Host::builder().service("sealed", SEALED).runs("open", "serve").start();
    let names = ["disk-1", "disk-2", "disk-3", "own", "held"];
    let [one, two, three, own, held] = names.map(|name| host.path(name));
    for name in names {
        fs::create_dir(host.path(name)).expect("the test's folder is writable");
    }
    let mount = |path: &Path| {
        inside(&host, &["mount", "-t", "tmpfs", "none", path.to_str().expect("a path in UTF-8")]);
    };
    // As a machine has it.
    inside(&host, &["mount", "--make-rshared", "/"]);
    host.ctl(&["start", "sealed", "--wait"]).ok();
    let sealed = host.outer_pid(host.pid_of("sealed"));
    let machine = host.init_pid();

    mount(&one);
    is_read_only(sealed, &one);
    // In PID 1's next incarnation as well, and what the service has mounted for itself stays its own.
    host.ctl(&["reexec"]).ok();
    host.ctl(&["signal", "sealed", "USR2"]).ok();
    host.wait_log("sealed", "mounted");
    mount(&two);
    is_read_only(sealed, &two);
    mount(&three);
    is_read_only(sealed, &three);
    assert!(options(sealed, &own).is_some_and(|options| options.starts_with("rw,")));
    host.ctl(&["signal", "sealed", "USR1"]).ok();
    let log = host.wait_log("sealed", "tried");
    assert!(!log.contains("wrote"), "{log}");
    for disk in [&one, &two, &three] {
        assert!(options(machine, disk).is_some_and(|options| options.starts_with("rw,")));
        let text = format!(": >{}/exec", disk.display());
        host.ctl(&["exec", "open", "--", "/bin/sh", "-c", &text]).ok();
        assert_ne!(host.ctl(&["exec", "sealed", "--", "/bin/sh", "-c", &text]).status, 0);
    }
    inside(&host, &["umount", one.to_str().expect("a path in UTF-8")]);
    assert_eq!(options(sealed, &one), None, "it goes at once");

    // One that was faster than PID 1 keeps its file, and sees no more of the disk.
    host.signal(libc::SIGSTOP);
    eventually("PID 1 to stand still", || stands_still(machine));
    // One that it has started before must not come to this mount.
    let idle = || host.processes_with("kelson-task").is_empty().then_some(());
    until("kelson-task to have ended", PATIENCE, idle);
    mount(&held);
    host::send(sealed, libc::SIGHUP);
    eventually("the file to be open", || held_open(sealed, &held));
    host.signal(libc::SIGCONT);
    let told = host.wait_event(0, "that tells of it", |event| event.message.contains("opened for writing"));
    assert!(told.message.contains(&format!("sealed: {}: ", held.display())), "{told:?}");
    assert_eq!(options(sealed, &held), None);
    assert_eq!(host.service("sealed").restarts, 0);
    host.poweroff();
}

fn stands_still(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten();
    let mut states =
        threads.map(|thread| fs::read_to_string(thread.path().join("status")).unwrap_or_default());
    states.all(|status| status.contains("State:\tT "))
}

fn held_open(pid: i32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/fd/9")).is_ok_and(|target| target.starts_with(folder))
}
