//! Making the Unix socket so that it is never there with the wrong rights, and never in the way of itself.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid};

use crate::error::ApiError;

/// Binds the socket, 0660 `root:group`.
///
/// It is made beside its place, given its rights, and moved there: a client that connects by the name finds either the
/// old socket or the new one with its rights, and one left by an earlier incarnation is replaced.
///
/// # Errors
/// When the directory is not there or not writable.
pub fn bind(path: &Path, group: Option<u32>) -> Result<UnixListener, ApiError> {
    let beside = beside(path);
    let made = remove(&beside).and_then(|()| UnixListener::bind(&beside)).and_then(|listener| {
        if let Some(group) = group {
            // A user namespace has few groups; root can still connect.
            if let Err(errno) = nix::unistd::chown(&beside, None::<Uid>, Some(Gid::from_raw(group))) {
                tracing::warn!("{} cannot be given to the group {group}: {errno}", path.display());
            }
        }
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o660))?;
        listener.set_nonblocking(true)?;
        std::fs::rename(&beside, path)?;
        Ok(listener)
    });
    made.map_err(|source| {
        let _ = remove(&beside);
        ApiError::Socket { path: path.to_owned(), source }
    })
}

/// One byte longer than the name itself: socket paths may have 107 bytes only.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push("~");
    PathBuf::from(name)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
