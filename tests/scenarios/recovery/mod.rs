//! Recovery (V1 to V8): PID 1 is executed anew under running services.

mod v1_reexec;
mod v2_damaged_state;
mod v4_stop_goes_on;
mod v5_ends_in_between;

use kelson_tests::Host;

/// Has PID 1 execute itself anew, and returns once it answers.
#[track_caller]
fn reexec(host: &Host) {
    host.ctl(&["reexec"]).ok();
}
