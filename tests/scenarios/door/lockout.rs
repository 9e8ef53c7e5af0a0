//! Nobody ends his own access to a host over the network unasked.

use kelson_tests::{Host, on_terminal, remote};

use super::open;

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
    let (status, shown) = on_terminal(away.command(&["stop", "--cascade", "web"]), "n");
    assert!(status == 1 && shown.contains("Stop it all the same? [y/N] "), "{shown}");
    assert!(host.service("apid").up && host.service("web").up);
    let (status, shown) = on_terminal(away.command(&["stop", "--cascade", "web"]), "y");
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
    let (status, shown) = on_terminal(away.command(&["reboot"]), "");
    assert!(
        status == 1 && shown.contains("Reboot ") && shown.contains("nothing was done"),
        "{status} {shown}"
    );
    // On the host itself nobody is asked, nor where nobody can answer.
    assert!(host.service("web").up);
    let (_, shown) = on_terminal(away.command(&["poweroff", "--no-wait", "--yes"]), "n");
    assert!(!shown.contains("[y/N]"), "{shown}");
    assert_eq!(host.wait_exit(), 0);
    let mut host = open();
    let (_, shown) = on_terminal(host.client().command(&["poweroff", "--no-wait"]), "n");
    assert!(!shown.contains("[y/N]"), "{shown}");
    assert_eq!(host.wait_exit(), 0);
}
