//! Hostile surroundings: what a host lives in is full, gone, flooded, or in the hands of somebody who means no good. Services
//! keep their PIDs, no restart is counted, no line is lost that is not said to be, questions are answered, and the power
//! off comes to its end.
//!
//! Each fault is a function over a running host, and can be injected again and again: [`FAULTS`] names them all. A test
//! injects its fault once; the same with `long_` twenty times, and prints one line
//!
//! `CHAOS <fault> <times> <lost services> <lost lines> <miscounted> <hangs>`
//!
//! | fault | what is done |
//! |---|---|
//! | `run-full` | the file system of the runtime folder is full; services are taken in meanwhile |
//! | `log-disk-full` | that of the logs is full |
//! | `log-disk-read-only` | that of the logs can no longer be written |
//! | `log-disk-gone` | that of the logs is unmounted under logd's hands |
//! | `no-descriptors` | PID 1 can open nothing more |
//! | `logd-no-descriptors` | logd can open nothing more, and is handed pipes |
//! | `silent-clients` | a thousand connect to each of the two sockets and say nothing |
//! | `stopped-clients` | more streams than PID 1 serves, whose readers are stopped |
//! | `unread-console` | nobody reads what PID 1 says |
//! | `ten-thousand-ends` | ten thousand orphans end at one moment |
//! | `signals` | a service sends PID 1 every signal that means nothing, many times; another has no right to |
//! | `floods` | services flood their notify socket, their readiness descriptor and their log |
//! | `sockets-removed` | a service removes the sockets of PID 1 and logd, and the folder of the notify sockets |
//! | `state-truncated` | a service truncates the files of the state |
//! | `containerd-frozen` | containerd and a shim are frozen, and thawed |
//! | `containerd-killed` | containerd and a shim are killed |
//! | `containerd-upgraded` | containerd and its shim are those of another version, with the containers of the one before |

mod children;
mod clients;
mod console;
mod containers;
mod descriptors;
mod floods;
mod later_mounts;
mod log_disk;
mod run_full;
mod siege;
mod signals;
mod vandals;

use kelson_tests::{Host, HostBuilder};

/// Something that is done to a running host, and taken away again.
pub struct Fault {
    pub name: &'static str,
    /// Prepares the host. Services of its own have names that begin with `own-`.
    pub host: fn(HostBuilder) -> HostBuilder,
    /// Does it, looks at what an operator sees of it, and takes it away.
    pub inject: fn(&Host),
}

pub const FAULTS: [Fault; 17] = [
    run_full::FAULT,
    log_disk::FULL,
    log_disk::READ_ONLY,
    log_disk::GONE,
    descriptors::OF_PID_1,
    descriptors::OF_LOGD,
    clients::SILENT,
    clients::STOPPED,
    console::FAULT,
    children::FAULT,
    signals::FAULT,
    floods::FAULT,
    vandals::SOCKETS,
    vandals::STATE,
    containers::FROZEN,
    containers::KILLED,
    containers::UPGRADED,
];

/// As often as a fault is injected in the long run.
const MANY: u32 = 20;

#[test]
fn every_fault_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<&str> = FAULTS.iter().map(|fault| fault.name).collect();
    assert_eq!(names.len(), FAULTS.len());
}

/// It needs a version of containerd that hack/chaos alone fetches.
#[test]
#[ignore = "hack/chaos runs it"]
fn long_hostile_containerd_upgraded() {
    siege::endure(&containers::UPGRADED, MANY);
}

/// The two tests of each fault.
macro_rules! tests {
    ($($fault:expr, $once:ident, $often:ident;)*) => {$(
        #[test]
        fn $once() {
            siege::endure(&$fault, 1);
        }

        #[test]
        fn $often() {
            siege::endure(&$fault, MANY);
        }
    )*};
}

tests! {
    run_full::FAULT, hostile_run_full, long_hostile_run_full;
    log_disk::FULL, hostile_log_disk_full, long_hostile_log_disk_full;
    log_disk::READ_ONLY, hostile_log_disk_read_only, long_hostile_log_disk_read_only;
    log_disk::GONE, hostile_log_disk_gone, long_hostile_log_disk_gone;
    descriptors::OF_PID_1, hostile_no_descriptors, long_hostile_no_descriptors;
    descriptors::OF_LOGD, hostile_logd_no_descriptors, long_hostile_logd_no_descriptors;
    clients::SILENT, hostile_silent_clients, long_hostile_silent_clients;
    clients::STOPPED, hostile_stopped_clients, long_hostile_stopped_clients;
    console::FAULT, hostile_unread_console, long_hostile_unread_console;
    children::FAULT, hostile_ten_thousand_ends, long_hostile_ten_thousand_ends;
    signals::FAULT, hostile_signals, long_hostile_signals;
    floods::FAULT, hostile_floods, long_hostile_floods;
    vandals::SOCKETS, hostile_sockets_removed, long_hostile_sockets_removed;
    vandals::STATE, hostile_state_truncated, long_hostile_state_truncated;
    containers::FROZEN, hostile_containerd_frozen, long_hostile_containerd_frozen;
    containers::KILLED, hostile_containerd_killed, long_hostile_containerd_killed;
}
