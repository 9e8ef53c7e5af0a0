//! Folders of stages and targets. Nothing here removes more than an empty folder.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kelson_spec::service::Attachment;
use kelson_sys::mountinfo;
use kelson_sys::room::Room;
use kelson_sys::text::of_error;

use crate::job::{Failure, Place};
use crate::path::HostPath;

/// Calls of the system that may hang, each in a thread of its own.
#[derive(Debug, Clone)]
pub struct Places {
    deadline: Duration,
    /// Those with a call that has not returned: they get no second one, so threads do not add up.
    hanging: Arc<Mutex<HashSet<PathBuf>>>,
}

impl Places {
    pub fn new(deadline: Duration) -> Places {
        Places { deadline, hanging: Arc::default() }
    }

    /// Makes the folder, and those that it is in.
    pub async fn make(&self, folder: HostPath) -> Result<(), Failure> {
        let made = self.call(&folder, |folder| {
            // A volume is for its services alone: what is between is root's.
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.as_path())
        });
        made.await?.map_err(|error| {
            Failure::before(&format!("{folder} cannot be made: {}", of_error(&error))).of("mkdir")
        })
    }

    /// Whether a plugin that has published a volume has done so where the host sees it.
    pub async fn has(&self, place: &Place) -> Result<bool, Failure> {
        match place.usage.attachment {
            Attachment::Filesystem => self.is_mounted(&place.target).await,
            Attachment::Block => {
                let found = self.call(&place.target, |target| fs::metadata(target.as_path())).await?;
                Ok(found.is_ok_and(|meta| meta.file_type().is_block_device()))
            }
        }
    }

    /// How full the file system there is.
    pub async fn room(&self, target: &HostPath) -> Result<io::Result<Room>, Failure> {
        self.call(target, |target| Room::at(target.as_path())).await
    }

    /// Removes what a plugin has left: an empty folder. Gives what an operator should know of another thing that is there.
    ///
    /// # Errors
    /// When something is mounted there.
    pub async fn clear(&self, path: &HostPath) -> Result<Option<String>, Failure> {
        if self.is_mounted(path).await? {
            let text =
                format!("the plugin reports success, but {path} is still mounted: it has to unmount it");
            return Err(Failure::after(&text));
        }
        let removed = self.call(path, |path| kelson_sys::removed(fs::remove_dir(path.as_path()))).await?;
        let Err(error) = removed else { return Ok(None) };
        match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory => Ok(Some(format!(
                "{path} of a volume that is not published any more is left as it is: {}; remove it if nobody needs it",
                of_error(&error)
            ))),
            _ => Err(Failure::after(&format!("{path} cannot be removed: {}", of_error(&error))).of("rmdir")),
        }
    }

    /// Whether something is mounted at the path.
    async fn is_mounted(&self, path: &HostPath) -> Result<bool, Failure> {
        if let Ok(Ok(is)) = self.call(path, |path| kelson_sys::is_mount_root(path.as_path())).await {
            return Ok(is);
        }
        // The kernel's table is in memory and does not hang, but is long on a host with many volumes.
        let mounts = mountinfo::read()
            .map_err(|error| Failure::before(&format!("/proc/self/mountinfo: {}", of_error(&error))))?;
        Ok(mountinfo::topmost(&mounts, path.as_path()).is_some())
    }

    async fn call<T: Send + 'static>(
        &self,
        path: &HostPath,
        call: impl FnOnce(&HostPath) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let key = path.as_path().to_owned();
        let lock = |hanging: &Mutex<HashSet<PathBuf>>, add: bool| {
            let mut hanging = hanging.lock().unwrap_or_else(PoisonError::into_inner);
            if add { hanging.insert(key.clone()) } else { hanging.remove(&key) }
        };
        if !lock(&self.hanging, true) {
            return Err(Failure::before(&format!("an earlier call of the system for {path} still hangs")));
        }
        let (hanging, path_there) = (Arc::clone(&self.hanging), path.clone());
        let task = tokio::task::spawn_blocking(move || {
            let result = call(&path_there);
            let mut hanging = hanging.lock().unwrap_or_else(PoisonError::into_inner);
            hanging.remove(path_there.as_path());
            result
        });
        let within = self.deadline.as_secs();
        match tokio::time::timeout(self.deadline, task).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(Failure::before(&format!("{path}: {error}"))),
            Err(_) => Err(Failure::before(&format!("{path} does not answer within {within} s"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_an_empty_folder_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::new(Duration::from_secs(5));
        let path = |name: &str| HostPath::new(folder.path().join(name));
        places.make(path("a/b")).await.unwrap();
        places.make(path("a/b")).await.unwrap();
        assert_eq!(places.clear(&path("a/b")).await.unwrap(), None);
        assert_eq!(places.clear(&path("a/b")).await.unwrap(), None);
        fs::write(folder.path().join("a/data"), "1").unwrap();
        for left in ["a", "a/data"] {
            let note = places.clear(&path(left)).await.unwrap().unwrap();
            assert!(note.contains("left as it is"), "{note}");
        }
        assert_eq!(fs::read(folder.path().join("a/data")).unwrap(), b"1");
        let error = places.make(path("a/data/x")).await.unwrap_err();
        assert!(error.text.contains("not a directory"), "{error:?}");
    }

    #[tokio::test]
    async fn a_call_that_hangs_gets_no_second_thread() {
        let places = Places::new(Duration::from_millis(20));
        let path = HostPath::new("/somewhere");
        let (release, hangs) = std::sync::mpsc::channel::<()>();
        let error = places.call(&path, move |_| hangs.recv().is_err()).await.unwrap_err();
        assert!(error.text.contains("does not answer"), "{error:?}");
        let error = places.call(&path, |_| ()).await.unwrap_err();
        assert!(error.text.contains("still hangs"), "{error:?}");
        drop(release);
        while places.call(&path, |_| ()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
