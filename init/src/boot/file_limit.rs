//! The limit on open files: PID 1 raises its own, and gives its children what it was given. And the kernel's table of
//! them.

use kelson_spec::service::ResourceLimit;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// As many as a thousand services with four descriptors each need, with room.
const FILES: u64 = 65_536;

/// Room for the descriptors of 200 services; 8 kB of the kernel's memory.
const TABLE: i32 = 1024;

/// Has the kernel make the table of open files large enough for most hosts.
///
/// The kernel enlarges it as descriptors are opened. In a process with threads each enlargement waits for an RCU grace
/// period, about 10 ms, during which PID 1 would stand still. So this is called before PID 1 has a second thread.
pub fn reserve_table() {
    // Where the limit is lower, or there is no standard error, the table grows as it must.
    if let Ok(descriptor) = fcntl(std::io::stderr(), FcntlArg::F_DUPFD_CLOEXEC(TABLE.saturating_sub(1))) {
        let _ = nix::unistd::close(descriptor);
    }
}

/// Raises PID 1's own limit (init starts with 1024 and 4096) and returns what it was, for its children.
///
/// # Errors
/// When the kernel refuses even the hard limit that we have.
pub fn raise() -> std::io::Result<ResourceLimit> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = FILES.max(hard);
    if setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_err() {
        // Not privileged: as far as it goes.
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(ResourceLimit { resource: libc::RLIMIT_NOFILE, soft, hard })
}

/// How many open files a child can be given, at most `wanted`: a limit above PID 1's own takes a privilege that a container
/// may not have, and then its child could not be started at all.
pub fn for_child(wanted: u64) -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return wanted };
    // PID 1 keeps what it gets here: its children are given their own limits.
    match hard < wanted && setrlimit(Resource::RLIMIT_NOFILE, soft, wanted).is_err() {
        true => hard,
        false => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_child_is_promised_more_files_than_it_can_have() {
        let given = for_child(1 << 20);
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(given <= hard, "{given} of {hard}");
        assert_eq!(for_child(16), 16);
    }
}
