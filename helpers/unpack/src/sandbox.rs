//! The rights that the process gives up before it reads the first byte of an archive.
//!
//! Each step is tried, and one that the host does not permit is reported: where a step fails because the
//! process has little power already (in a container), the work may still be possible.

use kelson_sys::capability;
use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};

/// Anonymous memory, threads' stacks included; a bug or a hostile archive ends this process, not the host's memory.
const MEMORY: u64 = 192 << 20;

/// To mount a snapshot for a look at its users.
const MOUNTING: u64 = capability::SYS_ADMIN;
/// To read archives and containerd's socket, whoever their owner is, and to make the folder of locks.
const READING: u64 = capability::DAC_OVERRIDE | capability::DAC_READ_SEARCH;
const KEPT: u64 = MOUNTING | READING;
/// To make the files of an image.
const MAKING: u64 =
    capability::CHOWN | capability::FOWNER | capability::FSETID | capability::MKNOD | capability::SETFCAP;

/// Enters the sandbox; the result says what could not be done. No other thread runs yet.
///
/// `unpacks`: it makes the files of images itself, with their owners.
pub fn enter(unpacks: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let mut attempt = |what: &str, result: nix::Result<()>| {
        if let Err(errno) = result {
            notes.push(format!("the sandbox of kelson-unpack has a gap: {what}: {}", errno.desc()));
        }
    };
    attempt("no mount namespace of its own", own_mounts());
    attempt("the host's network stays in reach", nix::sched::unshare(CloneFlags::CLONE_NEWNET));
    attempt("capabilities stay", capability::keep(if unpacks { KEPT | MAKING } else { KEPT }));
    attempt("new privileges stay possible", prctl::set_no_new_privs());
    attempt("it can be traced", prctl::set_dumpable(false));
    attempt("its memory has no bound", setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY));
    attempt("it may dump core", setrlimit(Resource::RLIMIT_CORE, 0, 0));
    one_heap();
    notes
}

/// Gives the process mounts of its own. An unmount of the host takes effect here too: a copy that stayed
/// would keep a disk in use.
fn own_mounts() -> nix::Result<()> {
    nix::sched::unshare(CloneFlags::CLONE_NEWNS)?;
    nix::mount::mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)
}

/// A heap for each thread would hold on to memory that another thread needs.
fn one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number, before other threads run.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
