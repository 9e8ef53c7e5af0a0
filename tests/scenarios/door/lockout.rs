//! Nobody ends his own access to a host over the network unasked.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::{Command, Stdio};

use kelson_tests::{Host, remote};

use super::open;

/// Runs the command on a terminal where somebody answers the question; its status, and what was shown.
fn answered(mut command: Command, answer: &str) -> (i32, String) {
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: openpty fills in the two numbers; the other pointers may be null.
    let made = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            std::ptr::null_mut(),
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    assert_eq!(made, 0, "openpty(3)");
    // SAFETY: both are open, and nobody else's.
    let (mut master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let copy = || Stdio::from(slave.try_clone().expect("a descriptor"));
    let mut child =
        command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("kelsonctl can be started");
    drop((command, slave));
    let (mut shown, mut chunk, mut told) = (String::new(), [0; 4096], false);
    // The end of a terminal reads as an error.
    while let Ok(count @ 1..) = master.read(&mut chunk) {
        shown += std::str::from_utf8(&chunk[..count]).expect("text");
        if shown.contains("[y/N] ") && !std::mem::replace(&mut told, true) {
            master.write_all(format!("{answer}\n").as_bytes()).expect("it listens");
        }
    }
    (child.wait().expect("it is ours").code().unwrap_or(-1), shown)
}

#[test]
fn a_stop_of_apid_over_the_network_needs_force() {
    let (_, machine) = remote::door();
    let host = Host::builder()
        .machine(&format!("{machine}builtins: {{apid: {{depends: [{{service: web}}]}}}}\n"))
        .runs("web", "serve")
        .up(&["apid"]);
    let away = remote::client(&host);
    for words in [&["stop", "apid"][..], &["stop", "--wait", "apid"], &["stop", "--cascade", "web"]] {
        let refused = away.run(words).expect(1);
        assert!(refused.stderr.contains("--force") && refused.stderr.contains("--for 1h"), "{refused:?}");
    }
    assert!(host.service("apid").up && host.service("web").up);
    let (status, shown) = answered(away.command(&["stop", "--cascade", "web"]), "n");
    assert!(status == 1 && shown.contains("Stop it all the same? [y/N] "), "{shown}");
    assert!(host.service("apid").up && host.service("web").up);
    let (status, shown) = answered(away.command(&["stop", "--cascade", "web"]), "y");
    assert!(status == 0 && shown.contains("apid stays down until the next boot"), "{status} {shown}");
    assert!(host.wait_for("apid", "to be stopped", |apid| apid.stopped).state == "stopped");
    host.wait_state("web", "stopped");
    let audit = host.wait_log("audit", "result=ok");
    assert!(audit.contains("result=failed:FailedPrecondition"), "{audit}");
    // On the host nobody is asked.
    host.ctl(&["start", "--wait", "web", "apid"]).ok();
    host.ctl(&["stop", "--wait", "apid"]).ok();
}

#[test]
fn apid_comes_back_when_its_time_is_over_whatever_becomes_of_pid_1() {
    let host = open();
    let web = host.pid_of("web");
    let before = host.pid_of("apid");
    let said = remote::client(&host).run(&["stop", "--force", "--wait", "--for", "8s", "apid"]).ok().stdout;
    assert!(said.contains("it starts again in 8 s"), "{said}");
    host.wait_for("apid", "to be stopped", |apid| apid.stopped);
    host.ctl(&["reexec"]).ok();
    host.crash(|| host.signal(libc::SIGSEGV));
    let apid = host.wait_for("apid", "to come back", |apid| apid.up);
    assert!(apid.pid != Some(before) && !apid.stopped, "{apid:?}");
    let events = host.events_of("apid");
    assert!(
        events.iter().any(|event| event.message == "the time for which it was stopped is over"),
        "{events:?}"
    );
    assert_eq!(host.pid_of("web"), web);
}

#[test]
fn who_starts_or_stops_it_meanwhile_wins() {
    let host = open();
    let stopped = |words: &[&str]| host.ctl(&[&["stop", "--wait", "web"], words].concat()).ok();
    let from = host.newest_event();
    stopped(&["--for", "1s"]);
    host.ctl(&["start", "--wait", "web"]).ok();
    let run = host.pid_of("web");
    stopped(&["--for", "2s"]);
    assert!(stopped(&[]).stdout.contains("already"));
    // Another service's time tells that those of this one would have been over.
    host.ctl(&["stop", "--wait", "--for", "2s", "apid"]).ok();
    let over = "the time for which it was stopped is over";
    host.wait_event(from, "apid to come back", |event| event.service == "apid" && event.message == over);
    let web = host.service("web");
    assert!(web.stopped && web.pid.is_none(), "{web:?} {run}");
    assert!(!host.events_of("web").iter().any(|event| event.message == over));
}

#[test]
fn the_end_of_a_machine_over_the_network_is_asked_back_on_a_terminal() {
    let mut host = open();
    let away = remote::client(&host);
    let (status, shown) = answered(away.command(&["reboot"]), "");
    assert!(
        status == 1 && shown.contains("Reboot ") && shown.contains("nothing was done"),
        "{status} {shown}"
    );
    // On the host itself nobody is asked, nor where nobody can answer.
    assert!(host.service("web").up);
    let (_, shown) = answered(away.command(&["poweroff", "--no-wait", "--yes"]), "n");
    assert!(!shown.contains("[y/N]"), "{shown}");
    assert_eq!(host.wait_exit(), 0);
    let mut host = open();
    let (_, shown) = answered(host.client().command(&["poweroff", "--no-wait"]), "n");
    assert!(!shown.contains("[y/N]"), "{shown}");
    assert_eq!(host.wait_exit(), 0);
}
