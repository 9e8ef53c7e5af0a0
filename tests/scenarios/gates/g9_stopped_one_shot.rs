//! G9: a one-shot that an operator stopped half way is down, not finished: its gate stays shut.

use kelson_tests::Host;

#[test]
fn g9_a_one_shot_stopped_half_way_is_down_and_its_gate_stays_shut() {
    let mut host = Host::builder()
        // It ends with status 0 on request: that is no success of its own.
        .runs_with("migrate", "'append=$DIR/runs', await=TERM, exit=0", "type: oneshot")
        .runs_with("web", "serve", "depends: [{service: migrate}]")
        .runs_with("report", "serve", "depends: [{service: migrate, event: finished}]")
        .runs_with("rescue", "serve", "depends: [{service: migrate, event: down}]")
        .start();
    host.wait_state("migrate", "running");
    let stop = host.client().act(&["stop", "migrate", "--wait"]);
    assert_eq!(stop.outcome, "done", "{stop:?}");
    let migrate = host.service("migrate");
    assert_eq!(
        (migrate.state.as_str(), migrate.stopped, migrate.up),
        ("stopped", true, false),
        "{migrate:?}"
    );
    host.ctl(&["wait", "migrate", "--for", "down", "--timeout", "1ms"]).ok();
    host.ctl(&["wait", "migrate", "--for", "up", "--timeout", "1ms"]).expect(5);
    host.ctl(&["wait", "migrate", "--for", "finished", "--timeout", "1ms"]).expect(5);
    // A service that waits for its end as down starts; the others report why they do not.
    host.wait_up("rescue");
    for name in ["web", "report"] {
        let waiter = host.wait_for(name, "to know of the stop", |s| s.message.contains("it was stopped"));
        assert_eq!(waiter.state, "waiting");
        assert_eq!(host.states_of(name), ["waiting"], "{name}");
    }

    // A restart is a start as well; what ends by itself opens the gate.
    host.write_service("migrate", "process: {command: [$PROGRAM]}\ntype: oneshot");
    let before = host.newest_event();
    host.signal(libc::SIGHUP);
    host.wait_event(before, "of the host that it read its files", |event| {
        event.message.starts_with("the files were read again; changed, restart them to take it up: migrate")
    });
    host.ctl(&["start", "migrate", "--wait"]).ok();
    host.wait_all_up(&["web", "report"]);
    assert!(!host.service("migrate").stopped);
    host.poweroff();
}
