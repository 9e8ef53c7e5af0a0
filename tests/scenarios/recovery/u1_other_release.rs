//! U1: the state is that of another release: what is not known is kept, or has its default, and is reported.

use std::fs;

use kelson_tests::Host;

use super::v3_stranger::rewrite;
use super::{Fault, each_fault};

/// Field 4 of a record, with a value that no release has used; and field 900, a text.
pub(super) const LATER: [&[u8]; 2] = [&[4 << 3, 99], &[0xa2, 0x38, 5, b'l', b'a', b't', b'e', b'r']];

fn a_phase_of_another_release_is_taken_up(fault: Fault) {
    let mut host = Host::builder()
        .runs("web", "print=web, serve")
        .runs("other", "print=other, serve")
        .crash_limit("1000/1m")
        .start();
    let pids = ["web", "other"].map(|name| {
        host.wait_up(name);
        host.pid_of(name)
    });
    let newest = host.newest_event();
    rewrite(&host, "web", pids[0], 4, &LATER.concat());
    fault.strike(&host);
    host.wait_event(newest, "the phase that is not known", |event| {
        event.service == "web"
            && event.message.contains("it was in phase 99, which this version of Kelson does not know")
            && event.message.contains("taken up as running")
    });
    for (name, pid) in ["web", "other"].into_iter().zip(pids) {
        host.wait_up(name);
        let now = host.service(name);
        assert_eq!((now.pid, now.restarts), (Some(pid), 0), "{now:?}");
    }
    // It is supervised as before, and what a later release has written stays in its record.
    host.ctl(&["restart", "web"]).ok();
    host.wait_for("web", "to run again", |now| now.up && now.pid != Some(pids[0]));
    assert_eq!(later_fields(&host), 2, "in both slots of the service");
    host.poweroff();
}

/// How often the field of a later release stands in the records.
pub(super) fn later_fields(host: &Host) -> usize {
    let state = fs::read(host.path("run/state/services")).expect("the state");
    state.windows(LATER[1].len()).filter(|bytes| *bytes == LATER[1]).count()
}

#[test]
fn u1_a_phase_of_another_release_is_taken_up_and_its_fields_are_kept() {
    each_fault(a_phase_of_another_release_is_taken_up);
}
