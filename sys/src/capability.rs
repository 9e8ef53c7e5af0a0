//! The capabilities of this process (capabilities(7)).

use std::mem::size_of_val;

use nix::errno::Errno;

/// Bits of a set.
pub const CHOWN: u64 = 1;
pub const DAC_OVERRIDE: u64 = 1 << 1;
pub const DAC_READ_SEARCH: u64 = 1 << 2;
pub const FOWNER: u64 = 1 << 3;
pub const FSETID: u64 = 1 << 4;
pub const NET_BIND_SERVICE: u64 = 1 << 10;
pub const NET_ADMIN: u64 = 1 << 12;
pub const NET_RAW: u64 = 1 << 13;
pub const IPC_LOCK: u64 = 1 << 14;
pub const SYS_CHROOT: u64 = 1 << 18;
pub const SYS_ADMIN: u64 = 1 << 21;
pub const SYS_TIME: u64 = 1 << 25;
pub const MKNOD: u64 = 1 << 27;
pub const SETFCAP: u64 = 1 << 31;

/// `_LINUX_CAPABILITY_VERSION_3` of capset(2), and 0 for this process.
const HEADER: [u32; 2] = [0x2008_0522, 0];

/// A half of each set.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up every capability of this thread. Its open descriptors stay open, and its user's files stay its
/// own.
///
/// # Errors
/// When the kernel refuses.
pub fn drop_all() -> nix::Result<()> {
    set(&[Half::default(); 2])
}

/// Gives up every capability but those of `kept` that it holds, and has no program that it executes hold another.
///
/// # Errors
/// When the kernel refuses.
pub fn keep(kept: u64) -> nix::Result<()> {
    // A process may lack the privilege. It gives up what it holds below.
    let _ = bound(kept);
    let _ = prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    let (mut header, mut halves) = (HEADER, [Half::default(); 2]);
    // SAFETY: laid out as version 3 of the call writes them, and both live over it.
    let got = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), halves.as_mut_ptr()) };
    Errno::result(got)?;
    for (half, kept) in halves.iter_mut().zip([kept, kept >> 32]) {
        let kept = u32::try_from(kept & u64::from(u32::MAX)).unwrap_or(0);
        half.permitted &= kept;
        half.effective = half.permitted;
        half.inheritable = 0;
    }
    set(&halves)
}

/// Lets no program that this thread executes hold a capability but those of `kept`.
///
/// # Errors
/// EPERM if it may not (`CAP_SETPCAP`); it tries all of them nevertheless.
pub fn bound(kept: u64) -> nix::Result<()> {
    let mut done = Ok(());
    for capability in 0..64 {
        // Those that the kernel does not know end the loop's use, not its run.
        if kept & 1 << capability == 0 && prctl(libc::PR_CAPBSET_READ, capability).is_ok() {
            done = done.and(prctl(libc::PR_CAPBSET_DROP, capability));
        }
    }
    done
}

/// Lets this thread keep what it may hold when it becomes a user other than root, until it executes a program.
///
/// # Errors
/// What the kernel says.
pub fn keep_over_user() -> nix::Result<()> {
    prctl(libc::PR_SET_KEEPCAPS, 1)
}

/// Holds these capabilities alone, which a program that is executed as root keeps, and those of `ambient` one that is
/// executed as another user.
///
/// # Errors
/// When this thread does not hold all of them.
pub fn hold(held: u64, ambient: u64) -> nix::Result<()> {
    let half = |shift: u32| {
        let of = |set: u64| u32::try_from(set >> shift & u64::from(u32::MAX)).unwrap_or(0);
        Half { effective: of(held), permitted: of(held), inheritable: of(ambient) }
    };
    set(&[half(0), half(32)])?;
    let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
    for capability in (0..64).filter(|capability| ambient & 1 << capability != 0) {
        let zero: libc::c_ulong = 0;
        // SAFETY: numbers alone.
        Errno::result(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, raise, capability, zero, zero) })?;
    }
    Ok(())
}

/// No program that this thread executes gets more privileges than this thread has (`PR_SET_NO_NEW_PRIVS`).
///
/// # Errors
/// What the kernel says.
pub fn no_new_privileges() -> nix::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
}

fn set(halves: &[Half; 2]) -> nix::Result<()> {
    debug_assert_eq!(size_of_val(halves), 24);
    let mut header = HEADER;
    // SAFETY: laid out as version 3 of the call reads them, and both live over it.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), halves.as_ptr()) }).map(drop)
}

fn prctl(option: libc::c_int, value: libc::c_ulong) -> nix::Result<()> {
    let zero: libc::c_ulong = 0;
    // SAFETY: options that take numbers alone.
    Errno::result(unsafe { libc::prctl(option, value, zero, zero, zero) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Status;

    /// Capabilities belong to a thread; this one ends with the test.
    #[test]
    fn what_is_given_up_is_gone() {
        let of_thread = || Status::read("thread-self").unwrap();
        let gone = std::thread::spawn(move || {
            let before = of_thread().mask("CapPrm").unwrap();
            keep(SYS_ADMIN | DAC_OVERRIDE).unwrap();
            let status = of_thread();
            assert_eq!(status.mask("CapPrm"), Some(before & (SYS_ADMIN | DAC_OVERRIDE)));
            assert_eq!(status.mask("CapEff"), status.mask("CapPrm"));
            drop_all().unwrap();
            of_thread().mask("CapPrm")
        });
        assert_eq!(gone.join().unwrap(), Some(0));
    }
}
