//! Locks between processes that unpack at the same time: files that the kernel unlocks when their holder dies.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::blocking::blocking;
use crate::error::UnpackError;

/// The folder of locks, on a file system of this boot.
#[derive(Debug, Clone)]
pub struct Locks {
    folder: PathBuf,
}

/// A lock that is held; free when dropped, at the latest when the process ends.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    _file: Flock<File>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is held: a process that waits for it finds that its file is gone and takes a new one.
        let _ = fs::remove_file(&self.path);
    }
}

impl Locks {
    pub fn below(folder: &Path) -> Result<Self, UnpackError> {
        let folder = folder.join("locks");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|error| UnpackError::lock(&folder, error))?;
        Ok(Self { folder })
    }

    /// Waits for the lock, as long as its holder lives and works.
    pub async fn take(&self, name: &str) -> Result<Lock, UnpackError> {
        if let Some(lock) = self.try_take(name)? {
            return Ok(lock);
        }
        let path = self.folder.join(name);
        let wait =
            move || lock(&path, FlockArg::LockExclusive).map_err(|error| UnpackError::lock(&path, error));
        let lock = blocking(wait).await??;
        lock.ok_or(UnpackError::Thread)
    }

    /// The lock, unless somebody else holds it.
    pub fn try_take(&self, name: &str) -> Result<Option<Lock>, UnpackError> {
        let path = self.folder.join(name);
        lock(&path, FlockArg::LockExclusiveNonblock).map_err(|error| UnpackError::lock(&path, error))
    }
}

fn lock(path: &Path, how: FlockArg) -> io::Result<Option<Lock>> {
    loop {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let file = match Flock::lock(file, how) {
            Ok(file) => file,
            Err((_, Errno::EINTR)) => continue,
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, errno)) => return Err(errno.into()),
        };
        let locked = file.metadata()?;
        match fs::metadata(path) {
            Ok(there) if there.ino() == locked.ino() && there.dev() == locked.dev() => {
                return Ok(Some(Lock { path: path.to_owned(), _file: file }));
            }
            // The one before removed it on its way out.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_lock_is_held_once_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let locks = Locks::below(folder.path()).unwrap();
        let held = locks.try_take("a").unwrap().unwrap();
        assert!(locks.try_take("a").unwrap().is_none());
        assert!(locks.try_take("b").unwrap().is_some());
        drop(held);
        assert!(locks.try_take("a").unwrap().is_some());
        assert_eq!(fs::read_dir(folder.path().join("locks")).unwrap().count(), 0);
    }

    #[test]
    fn many_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let locks = Locks::below(folder.path()).unwrap();
        let (inside, turns) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let path = locks.folder.join("a");
                let (inside, turns) = (Arc::clone(&inside), Arc::clone(&turns));
                std::thread::spawn(move || {
                    for _ in 0..50 {
                        let held = lock(&path, FlockArg::LockExclusive).unwrap().unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                        turns.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(held);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(turns.load(Ordering::SeqCst), 400);
    }

    #[tokio::test]
    async fn who_waits_gets_it_once_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let locks = Locks::below(folder.path()).unwrap();
        let held = locks.take("a").await.unwrap();
        let second = tokio::spawn({
            let locks = locks.clone();
            async move { locks.take("a").await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(held);
        second.await.unwrap().unwrap();
    }
}
