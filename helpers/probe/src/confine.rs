//! What a probe gives up before it asks anything: PID 1 starts it without rights, and it makes sure.

use std::io;

/// Descriptors that are not connections: the standard ones, the socket to PID 1, those of the runtime.
const OWN_DESCRIPTORS: u64 = 32;
/// More connections than this at a time are not open, whatever the limit allows: with TLS, a long head and a long body one
/// takes up to 200 KiB, and all of them have to fit into what its cgroup may have.
const CONNECTIONS_MAX: u64 = 512;

/// Gains no rights by what it executes, is looked into by nobody, leaves no core on a disk.
pub fn give_up() -> io::Result<()> {
    // SAFETY: numbers only.
    let results = unsafe {
        [libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0)]
    };
    if results.iter().any(|result| *result < 0) {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Raises the limit of descriptors as far as it may; gives how many connections can be open at a time.
pub fn connections() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a pointer to a whole rlimit that lives until they return.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            let wanted = CONNECTIONS_MAX.saturating_add(OWN_DESCRIPTORS).min(limit.rlim_max);
            if limit.rlim_cur < wanted {
                let raised = libc::rlimit { rlim_cur: wanted, rlim_max: limit.rlim_max };
                if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) == 0 {
                    limit = raised;
                }
            }
        }
    }
    let open = limit.rlim_cur.saturating_sub(OWN_DESCRIPTORS).clamp(1, CONNECTIONS_MAX);
    usize::try_from(open).unwrap_or(1)
}
