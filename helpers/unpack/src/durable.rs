//! Brings the files of a layer to the disk before containerd records that the layer is whole.
//!
//! containerd syncs its records and its blobs, but not the files of a layer. After a power cut its records would call a
//! layer whole whose files are there and empty, and nobody would look at them again. So they are written first.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Waits until all that was written to the file system of `folder` is on its disk; without a folder, to all of them.
///
/// # Errors
/// When the disk could not take it, or has not by then. The thread that waits is left behind.
pub async fn sync(folder: Option<&Path>, within: Duration) -> io::Result<()> {
    let folder = folder.map(Path::to_owned);
    let work = tokio::task::spawn_blocking(move || sync_now(folder));
    match tokio::time::timeout(within, work).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(io::Error::other("a thread ended before its work was done")),
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the disk has not taken it within {} s", within.as_secs()),
        )),
    }
}

fn sync_now(folder: Option<PathBuf>) -> io::Result<()> {
    let Some(folder) = folder else {
        nix::unistd::sync();
        return Ok(());
    };
    Ok(nix::unistd::syncfs(File::open(folder)?)?)
}
