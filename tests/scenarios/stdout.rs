//! Output of services on PID 1's own standard output and error: `logs: {stdout: …}`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use kelson_tests::{Host, PATIENCE, eventually, until};

/// Waits until PID 1's own output has this line.
#[track_caller]
fn shows(host: &Host, line: &str) {
    eventually(&format!("{line:?} on the standard output"), || host.console().lines().any(|one| one == line));
}

#[test]
fn lines_are_in_the_log_and_on_the_standard_output_of_init() {
    let mut host = Host::builder()
        .runs_with("plain", "print=one, eprint=two, write=rest, wait-path=$DIR/go", "logs: {stdout: true}")
        .runs_with("named", "print=three, serve", "logs: {stdout: prefix}")
        .runs("silent", "print=four, serve")
        .up(&["plain", "named", "silent"]);
    for line in ["one", "two", "named: three"] {
        shows(&host, line);
    }
    host.wait_log("plain", "two");
    host.wait_log("named", "three");
    host.wait_log("silent", "four");
    // The end of the process ends its last line.
    host.touch("go");
    shows(&host, "rest");
    // After a restart of logd and another incarnation of PID 1 as well.
    host.ctl(&["restart", "--wait", "logd"]).ok();
    host.ctl(&["restart", "--wait", "named"]).ok();
    eventually("the line of the second run", || host.console().matches("named: three").count() == 2);
    host.ctl(&["reexec"]).ok();
    host.ctl(&["restart", "--wait", "named"]).ok();
    eventually("the line of the third run", || host.console().matches("named: three").count() == 3);
    host.poweroff();
    assert!(!host.console().contains("four"), "{}", host.console());
}

#[test]
fn the_last_lines_are_there_when_init_ends() {
    let steps = "await=TERM, print=bye";
    let mut host = Host::builder().runs_with("web", steps, "logs: {stdout: prefix}").up(&["web"]);
    host.poweroff();
    assert!(host.console().contains("web: bye\n"), "{}", host.console());
}

#[test]
fn the_machine_file_has_the_default() {
    let mut host = Host::builder()
        .machine("logs: {stdout: prefix}\n")
        .runs("usual", "print=one, serve")
        .runs_with("other", "print=two, serve", "logs: {stdout: false}")
        .up(&["usual", "other"]);
    shows(&host, "usual: one");
    host.wait_log("other", "two");
    host.poweroff();
    assert!(!host.console().lines().any(|line| line.ends_with("two")), "{}", host.console());
}

#[test]
fn with_only_a_service_writes_there_itself() {
    const MORE: &str = "logs: {stdout: only}\nuser: '65534'\n";
    let mut host = Host::builder()
        .stdout_unread()
        .runs_with(
            "web",
            "print=one, eprint=two, serve",
            &format!("{MORE}hooks: {{pre: {{command: [echo, zero]}}}}"),
        )
        .up(&["web"]);
    let mut said = String::new();
    until("its lines", PATIENCE, || {
        said.push_str(&host.take_console());
        said.contains("one").then_some(())
    });
    assert_eq!(said, "zero\none\n");
    shows(&host, "two");
    let output = |pid: i32| fs::metadata(format!("/proc/{pid}/fd/1")).expect("it runs");
    let (of_init, of_web) = (output(host.init_pid()), output(host.outer_pid(host.pid_of("web"))));
    assert_eq!(of_init.ino(), of_web.ino(), "nothing stands between");
    assert_eq!(of_init.uid(), 0, "it is not given away");
    assert_eq!(host.ctl(&["logs", "web"]).ok().stdout, "");
    host.poweroff();
}

#[test]
fn nobody_waits_for_a_reader_that_is_gone() {
    let mut host = Host::builder()
        .stdout_unread()
        .runs_with("web", "burst=4000:400, 'touch=$DIR/done', serve", "logs: {stdout: true}")
        .up(&["web"]);
    until("it to have written all", PATIENCE, || host.path("done").exists().then_some(()));
    host.wait_event(0, "what was lost", |event| {
        event.message.contains("nobody reads the standard output of init: lines that go there are dropped")
    });
    host.poweroff();
}
