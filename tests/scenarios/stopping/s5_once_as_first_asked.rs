//! S5: the end of the run happens once, as first asked, whenever that is; but a power off replaces a reboot that has
//! not reached its final call. And what each signal to PID 1 asks for.

use kelson_tests::cgroup::{Freezer, Stray};
use kelson_tests::{Host, PATIENCE, eventually, until};

use super::following;

/// Ends only once the test lets it.
const HELD: &str =
    "process: {command: [$PROGRAM, notify=READY=1, await=TERM, touch=$DIR/told, wait-path=$DIR/go]}
readiness: notify
stop: {timeout: 5m}";

/// A host in the middle of its stop, after this command.
#[track_caller]
fn stopping(command: &str) -> Host {
    let host = Host::builder().service("held", HELD).up(&["held"]);
    let said = host.ctl(&[command, "--no-wait"]).ok();
    assert!(said.stdout.contains("has begun") || said.stderr.contains("has begun"), "{said:?}");
    host.wait_file("told");
    host
}

#[track_caller]
fn let_go(mut host: Host) -> i32 {
    host.touch("go");
    host.wait_exit()
}

#[track_caller]
fn said(host: &Host, command: &str, text: &str) {
    let said = host.ctl(&[command, "--no-wait"]).ok();
    assert!(format!("{}{}", said.stdout, said.stderr).contains(text), "{said:?}");
}

#[test]
fn s5_a_power_off_while_booting_undoes_what_has_begun() {
    let mut host = Host::builder()
        .runs_with("gated", "append=$DIR/started, serve", "depends: [{path: $DIR/gate}]")
        .runs_with("unready", "hang", "readiness: notify\nstartTimeout: 5m")
        .runs_with("behind", "append=$DIR/started, serve", "depends: [{service: unready}]")
        .runs_with("first", "hang", "type: oneshot")
        // It would go on without the gated one, whose own stop comes only after this one's.
        .service("held", &format!("{HELD}\ndepends: [{{any: [{{service: gated}}, {{path: /}}]}}]"))
        .start();
    host.wait_state("gated", "waiting");
    host.wait_state("unready", "starting");
    host.wait_state("first", "running");
    host.wait_up("held");
    let events = following(&host);
    host.ctl(&["poweroff", "--no-wait"]).ok();
    host.wait_file("told");
    // The gate opens now: nobody goes through it any more.
    host.touch("gate");
    let start = host.client().act(&["start", "gated"]);
    assert_eq!(start.outcome, "refused", "{start:?}");
    assert!(start.message.contains("the host is stopping"), "{start:?}");
    host.touch("go");
    assert_eq!(host.wait_exit(), 0);
    assert!(!host.path("started").exists(), "a service was started in the middle of the stop");
    let (events, _) = events.rest();
    assert!(
        !events.iter().any(|e| ["starting", "running"].contains(&&*e.state) && !e.service.is_empty()),
        "{events:#?}"
    );
    let down: Vec<_> = events.iter().filter(|e| e.message == "all services are down").collect();
    assert_eq!(down.len(), 1, "{events:#?}");
}

#[test]
fn s5_a_power_off_while_preparing_undoes_it_and_starts_nothing() {
    let mut host = Host::builder()
        .runs_with("web", "touch=$DIR/ran, serve", "start: manual")
        // Needed by the one that is being prepared, and stopped after it.
        .runs_with("behind", "touch=$DIR/ran, serve", "start: manual\ndepends: [{service: web}]")
        .service("held", HELD)
        .up(&["held"]);
    // The processes left in its cgroup must end before the service can be prepared, and cannot.
    let mut stray = Stray::of(&host, "web");
    let Some(freezer) = Freezer::new() else { return };
    freezer.freeze(stray.0.id().cast_signed());
    let before = host.newest_event();
    // Nobody starts what it needs yet.
    host.ctl(&["start", "behind"]).expect(1);
    let start = host.client().act(&["start", "web"]);
    assert_eq!((start.outcome.as_str(), start.state.as_str()), ("done", "preparing"), "{start:?}");
    let mut events = host.follow_events(before + 1);
    host.ctl(&["poweroff", "--no-wait"]).ok();
    let told = events.find("of web stopping", PATIENCE, |e| e.service == "web" && e.state == "stopping");
    assert_eq!(told.message, "stopped: the host is stopping, undoing what was prepared");
    host.wait_file("told");
    // From here on its preparation could come to its end, and its start go on.
    freezer.thaw();
    until("the end of the stray", PATIENCE, || stray.0.try_wait().expect("it is our child"));
    let end = events.find("of its end", PATIENCE, |e| e.service == "web" && e.state == "stopped");
    assert_eq!(end.message, "stopped while preparing: the host is stopping");
    host.touch("go");
    assert_eq!(host.wait_exit(), 0);
    assert!(!host.path("ran").exists(), "a service was started in the middle of the stop");
    let (events, _) = events.rest();
    assert!(
        !events.iter().any(|e| ["web", "behind"].contains(&&*e.service)),
        "something came after its end: {events:#?}"
    );
    assert!(!host.cgroup_of("web").exists(), "the cgroup that was prepared is left");
}

#[test]
fn s5_a_power_off_replaces_a_reboot_and_nothing_else_changes_the_end() {
    let off = "power off is under way already";
    let reboot = "reboot is under way already";
    for (first, then, status) in [
        ("poweroff", &[("poweroff", off), ("reboot", off), ("halt", off)][..], 0),
        ("reboot", &[("reboot", reboot), ("poweroff", "power off replaces the reboot")], 0),
        ("reboot", &[("halt", reboot)], 10),
    ] {
        let host = stopping(first);
        then.iter().for_each(|(command, text)| said(&host, command, text));
        if first == "poweroff" {
            let asked = host.events().into_iter().filter(|e| e.message.contains("asked for by")).count();
            assert_eq!(asked, 1);
        }
        assert_eq!(let_go(host), status, "{first}, {then:?}");
    }
}

#[test]
fn s5_a_signal_replaces_a_reboot_as_well() {
    let host = stopping("reboot");
    host.signal(libc::SIGTERM);
    eventually("PID 1 to have read it", || host.console().contains("power off replaces"));
    host.signal(libc::SIGINT);
    eventually("PID 1 to have read it", || host.console().contains("power off is under way already"));
    assert_eq!(let_go(host), 0);
}

#[test]
fn s5_each_signal_asks_for_what_the_manual_says() {
    let realtime = libc::SIGRTMIN();
    for (signal, name, status) in [
        (libc::SIGTERM, "SIGTERM", 0),
        (libc::SIGINT, "SIGINT", 0),
        (libc::SIGPWR, "SIGPWR", 0),
        (realtime + 3, "SIGRTMIN+3", 0),
        (realtime + 4, "SIGRTMIN+4", 0),
        (realtime + 5, "SIGRTMIN+5", 10),
    ] {
        let mut host = Host::builder()
            .runs_with("web", "notify=READY=1, await=TERM, touch=$DIR/in-order", "readiness: notify")
            .up(&["web"]);
        host.signal(signal);
        assert_eq!(host.wait_exit(), status, "{name}; its console:\n{}", host.console());
        assert!(host.path("in-order").exists(), "{name}: the service was not stopped in order");
        let said = format!("{name} from a process outside");
        assert!(host.console().contains(&said), "{said}: {}", host.console());
    }
}

#[test]
fn s5_other_signals_do_nothing() {
    let mut host = Host::builder().runs("web", "serve").up(&["web"]);
    let realtime = libc::SIGRTMIN();
    for signal in [
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGWINCH,
        realtime,
        realtime + 6,
    ] {
        host.signal(signal);
    }
    let pid = host.pid_of("web");
    host.ctl(&["restart", "web", "--wait"]).ok();
    assert_ne!(host.pid_of("web"), pid);
    host.poweroff();
}
