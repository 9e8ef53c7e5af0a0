//! V4: a stop that was recorded is carried out by the next incarnation: the service is stopped, cleaned up once, not
//! started.

use kelson_tests::Host;

use super::{Fault, each_fault};

fn what_was_stopping_stops(fault: Fault) {
    let mut host = Host::builder()
        .runs_deaf("slow", "stop: {timeout: 9s}")
        .runs_with("delayed", "serve", "stop: {delay: 8s}")
        .start();
    for name in ["slow", "delayed"] {
        host.wait_up(name);
        host.ctl(&["stop", name]).ok();
        host.wait_state(name, "stopping");
    }
    fault.strike(&host);
    assert!(host.services().iter().filter(|now| !now.builtin).all(|now| now.state == "stopping"));
    for name in ["slow", "delayed"] {
        let stopped = host.wait_state(name, "stopped");
        assert!(stopped.stopped && stopped.pid.is_none(), "{stopped:?}");
        assert_eq!(host.states_of(name).last().map(String::as_str), Some("stopped"));
    }
    host.assert_nothing_left("slow", "ignore=TERM");
    host.poweroff();
}

#[test]
fn v4_what_was_stopping_stops() {
    each_fault(what_was_stopping_stops);
}

#[test]
fn v4_a_power_off_goes_on_to_its_end() {
    let mut host = Host::builder().runs_deaf("slow", "stop: {timeout: 5s}").up(&["slow"]);
    host.ctl(&["poweroff", "--no-wait"]).ok();
    host.wait_state("slow", "stopping");
    // Not now: it is refused, and the power off goes on.
    let refused = host.ctl(&["reexec"]).expect(1);
    assert!(refused.stderr.contains("the host is stopping"), "{refused:?}");
    assert_eq!(host.wait_exit(), 0);
}
