//! The rights that the process gives up before it speaks with anyone: it stays with its own folder and the network.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::Path;

use kelson_helper::user::leave_root_with;
use kelson_spec::names::PULL_USER;
use kelson_sys::capability;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{chroot, geteuid};

/// Anonymous memory; a bug or a hostile registry ends this process, not the host's memory.
const MEMORY: u64 = 128 << 20;

/// Makes the folder this process's own, its working folder and its whole world. Returns what could not be done.
///
/// # Errors
/// When there is no such folder, or it cannot be entered.
pub fn enter(folder: &Path) -> io::Result<Vec<String>> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    std::env::set_current_dir(folder)?;
    let mut notes = Vec::new();
    let mut attempt = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            notes.push(format!("the sandbox of kelson-pull has a gap: {what}: {error}"));
        }
    };
    if geteuid().is_root() {
        own(Path::new("."))?;
        attempt("it stays root", leave());
        attempt("other files stay in reach", chroot(".").map_err(io::Error::from));
    }
    attempt("capabilities stay", capability::keep(0).map_err(io::Error::from));
    attempt("new privileges stay possible", prctl::set_no_new_privs().map_err(io::Error::from));
    attempt("it can be traced", prctl::set_dumpable(false).map_err(io::Error::from));
    attempt(
        "its memory has no bound",
        setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY).map_err(io::Error::from),
    );
    attempt("it may dump core", setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(io::Error::from));
    Ok(notes)
}

fn leave() -> io::Result<()> {
    match leave_root_with(PULL_USER, PULL_USER, capability::SYS_CHROOT)? {
        true => Ok(()),
        false => Err(io::Error::other(format!("this user namespace has no user {PULL_USER}"))),
    }
}

/// Gives the folder to the user of this process. What is below has been made by that user.
fn own(folder: &Path) -> io::Result<()> {
    if fs::metadata(folder).map(|folder| std::os::unix::fs::MetadataExt::uid(&folder))? == PULL_USER {
        return Ok(());
    }
    chown(folder, Some(PULL_USER), Some(PULL_USER))
}
