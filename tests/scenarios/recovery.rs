//! Recovery (V1 to V8, U1): PID 1 ends under running services, by `reexec` or by a crash, and goes on.

mod one_clock;
mod reload_before;
mod targets;
mod u1_other_release;
mod u1_upgrade;
mod v1_node_health;
mod v1_reexec;
mod v2_damaged_state;
mod v3_stranger;
mod v4_stop_goes_on;
mod v5_ends_in_between;
mod v6_undone_in_reverse;
mod v7_v8_in_between;

use kelson_tests::Host;

/// How an incarnation of PID 1 ends.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    Reexec,
    Crash,
}

impl Fault {
    /// Ends it, and returns once the next one answers.
    #[track_caller]
    pub fn strike(self, host: &Host) {
        match self {
            Fault::Reexec => reexec(host),
            Fault::Crash => host.crash(|| host.signal(libc::SIGSEGV)),
        }
    }
}

/// Plays a scenario with each fault, on a host of its own.
pub fn each_fault(scenario: fn(Fault)) {
    for fault in [Fault::Reexec, Fault::Crash] {
        eprintln!("{fault:?}");
        scenario(fault);
    }
}

/// Has PID 1 re-execute itself, and returns once it answers.
#[track_caller]
fn reexec(host: &Host) {
    host.ctl(&["reexec"]).ok();
}
