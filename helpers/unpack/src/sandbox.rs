//! What the process gives away before it reads the first byte of an archive.
//!
//! Each step is tried, and one that the host does not permit is told: where a step fails because the process has little
//! power already (in a container), the work may still be possible.

use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use nix::sys::resource::{Resource, setrlimit};

/// Anonymous memory, threads' stacks included; a bug or a hostile archive ends this process, not the host's memory.
const MEMORY: u64 = 192 << 20;

/// To mount a snapshot for a look at its users.
const CAP_SYS_ADMIN: u32 = 21;
/// To read archives and containerd's socket, whoever owns them, and to make the folder of locks.
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_DAC_READ_SEARCH: u32 = 2;
const KEPT: u64 = 1 << CAP_SYS_ADMIN | 1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH;

/// Enters the sandbox; the result says what could not be done. No other thread runs yet.
pub fn enter() -> Vec<String> {
    let mut notes = Vec::new();
    let mut attempt = |what: &str, result: nix::Result<()>| {
        if let Err(errno) = result {
            notes.push(format!("the sandbox of kelson-unpack has a gap: {what}: {}", errno.desc()));
        }
    };
    attempt("no mount namespace of its own", own_mounts());
    attempt("the host's network stays in reach", nix::sched::unshare(CloneFlags::CLONE_NEWNET));
    attempt("capabilities stay", drop_capabilities());
    attempt("new privileges stay possible", prctl(libc::PR_SET_NO_NEW_PRIVS, 1));
    attempt("it can be traced", prctl(libc::PR_SET_DUMPABLE, 0));
    attempt("its memory has no bound", setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY));
    attempt("it may dump core", setrlimit(Resource::RLIMIT_CORE, 0, 0));
    one_heap();
    notes
}

/// What is mounted here is seen here alone. What the host unmounts goes here too: a copy that stayed would keep a disk
/// in use.
fn own_mounts() -> nix::Result<()> {
    nix::sched::unshare(CloneFlags::CLONE_NEWNS)?;
    nix::mount::mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)
}

fn prctl(option: libc::c_int, value: libc::c_ulong) -> nix::Result<()> {
    let zero: libc::c_ulong = 0;
    // SAFETY: options that take numbers alone.
    nix::errno::Errno::result(unsafe { libc::prctl(option, value, zero, zero, zero) }).map(drop)
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

#[repr(C)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Version 3 of the interface: two words a set.
const CAPABILITIES_V3: u32 = 0x2008_0522;

fn drop_capabilities() -> nix::Result<()> {
    for capability in 0..64 {
        // Those that the kernel does not know and those that are gone already end the loop's use, not its run.
        if KEPT & 1 << capability == 0 && prctl(libc::PR_CAPBSET_READ, capability).is_ok() {
            let _ = prctl(libc::PR_CAPBSET_DROP, capability);
        }
    }
    let _ = prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    let mut header = CapabilityHeader { version: CAPABILITIES_V3, pid: 0 };
    let empty = || CapabilityWords { effective: 0, permitted: 0, inheritable: 0 };
    let mut words = [empty(), empty()];
    // SAFETY: the header and two words, as this version has them.
    nix::errno::Errno::result(unsafe {
        libc::syscall(libc::SYS_capget, &raw mut header, words.as_mut_ptr())
    })?;
    for (word, kept) in words.iter_mut().zip([KEPT, KEPT >> 32]) {
        let kept = u32::try_from(kept & u64::from(u32::MAX)).unwrap_or(0);
        word.permitted &= kept;
        word.effective = word.permitted;
        word.inheritable = 0;
    }
    // SAFETY: as above.
    nix::errno::Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, words.as_ptr()) })
        .map(drop)
}

/// A heap for each thread would hold on to memory that another thread needs.
fn one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number, before other threads run.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
