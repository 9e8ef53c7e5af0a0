//! A service of root's that removes what belongs to PID 1, or spoils it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use kelson_tests::{Host, HostBuilder, PATIENCE, until};

use super::Fault;

pub const SOCKETS: Fault = Fault { name: "sockets-removed", host: with_vandals, inject: remove_sockets };
pub const STATE: Fault = Fault { name: "state-truncated", host: with_vandals, inject: truncate_state };

fn with_vandals(builder: HostBuilder) -> HostBuilder {
    let job = "type: oneshot\nstart: manual";
    builder
        .runs_with("own-init", "remove=$DIR/run/init.sock", job)
        .runs_with("own-log", "remove=$DIR/run/log.sock", job)
        .runs_with("own-told", "'notify=READY=1', serve", "readiness: notify")
}

/// Its inode, and when it was made: the number alone may be given out again.
fn identity(host: &Host, name: &str) -> Option<(u64, i64, i64)> {
    let there = fs::symlink_metadata(host.path(name)).ok()?;
    Some((there.ino(), there.ctime(), there.ctime_nsec()))
}

/// Returns once there is another socket than this.
#[track_caller]
fn wait_another(host: &Host, name: &str, than: Option<(u64, i64, i64)>) {
    until(&format!("{name} to be made again"), PATIENCE, || {
        identity(host, name).filter(|now| Some(*now) != than)
    });
}

fn remove_sockets(host: &Host) {
    let newest = host.newest_event();
    let was = identity(host, "run/init.sock");
    let mut events = host.follow_events(newest);
    events.each_once(newest..=newest, PATIENCE);
    // Its own answer comes over the connection that is there already.
    host.ctl(&["start", "own-init", "--wait"]);
    wait_another(host, "run/init.sock", was);
    host.wait_event(newest, "of the socket", |event| {
        event.message.ends_with("/run/init.sock was removed, and has been made again")
    });
    // Existing connections stay.
    events.find("of the socket", PATIENCE, |event| event.message.contains("/run/init.sock was removed"));

    let (was, logd) = (identity(host, "run/log.sock"), host.pid_of("logd"));
    host.ctl(&["start", "own-log", "--wait"]).ok();
    wait_another(host, "run/log.sock", was);
    host.wait_event(newest, "of the socket", |event| event.message.contains("/run/log.sock was removed"));
    host.wait_for("logd", "to be another and up", |now| now.up && now.pid != Some(logd));
    assert_eq!(host.ctl(&["logs", "--tail", "1", "n-0"]).ok().stdout.lines().count(), 1);

    // The folder itself, with all in it: what runs does not need its socket any more, what starts makes it again.
    fs::rename(host.path("run/notify"), host.path("notify-gone")).expect("the folder");
    host.ctl(&["restart", "own-told", "--wait"]).ok();
    fs::remove_dir_all(host.path("notify-gone")).expect("it is ours");
    // Over a re-execution, too, it is the new socket that is known.
    host.ctl(&["reexec"]).ok();
    host.ctl(&["services"]).ok();
}

fn truncate_state(host: &Host) {
    for file in ["services", "events", "exits", "descriptors"] {
        let file =
            fs::File::options().write(true).open(host.path("run/state").join(file)).expect("the state");
        file.set_len(0).expect("it is a file");
    }
    // It goes on as if nothing were wrong; only another incarnation would find nothing.
    host.ctl(&["restart", "own-told", "--wait"]).ok();
    let newest = host.newest_event();
    let refused = host.ctl(&["reexec"]).expect(1);
    assert!(refused.stderr.contains("was changed by another process"), "{refused:?}");
    assert!(host.newest_event() >= newest);
}
