//! The rights that a probe gives up before it asks anything: PID 1 starts it without rights, and it makes
//! sure.

use std::io;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors that are not connections: the standard ones, the socket to PID 1, those of the runtime.
const OWN_DESCRIPTORS: u64 = 32;
/// More connections than this at a time are not open, whatever the limit allows: with TLS, a long head and a long body one
/// takes up to 200 KiB, and all of them have to fit into what its cgroup may have.
const CONNECTIONS_MAX: u64 = 512;

/// Gains no rights by what it executes, is looked into by nobody, leaves no core on a disk.
pub fn give_up() -> io::Result<()> {
    prctl::set_no_new_privs()?;
    Ok(prctl::set_dumpable(false)?)
}

/// Raises the limit of descriptors as far as it may; gives how many connections can be open at a time.
pub fn connections() -> usize {
    let wanted = CONNECTIONS_MAX.saturating_add(OWN_DESCRIPTORS);
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or_default();
    let raised = wanted.min(most);
    let is_raised = now < raised && setrlimit(Resource::RLIMIT_NOFILE, raised, most).is_ok();
    let descriptors = if is_raised { raised } else { now };
    let open = descriptors.saturating_sub(OWN_DESCRIPTORS).clamp(1, CONNECTIONS_MAX);
    usize::try_from(open).unwrap_or(1)
}
