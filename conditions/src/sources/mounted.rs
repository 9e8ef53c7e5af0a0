//! Whether a file system is mounted at a place, as the kernel's table of mounts says it: that asks no disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_sys::mountinfo;
use kelson_sys::ordered;
use tokio::sync::watch;

use crate::condition::{BoxFuture, Condition, Level, changed};
use crate::kernel_file;
use crate::missing::{Missing, Subject};
use crate::on_demand::OnDemand;

const TABLE: &str = "/proc/self/mountinfo";

/// The mounts of the host. Cheap to clone; clones share their one task.
#[derive(Clone, Default)]
pub struct Mounts(Arc<OnDemand<Option<BTreeSet<PathBuf>>>>);

impl Mounts {
    /// Holds while a file system is mounted at `path`, which is taken without symbolic links.
    pub fn condition(&self, path: &Path) -> MountCondition {
        MountCondition { path: path.components().collect(), places: self.0.subscribe(follow) }
    }

    /// Follows nothing from now on.
    pub(crate) async fn end(&self) {
        self.0.end().await;
    }
}

async fn follow(places: watch::Sender<Option<BTreeSet<PathBuf>>>) {
    let read = || {
        let mounts = mountinfo::read().unwrap_or_default().into_iter();
        // An automount stands for what is not mounted yet.
        Some(ordered::set(mounts.filter(|mount| mount.fs_type != "autofs").map(|mount| mount.target)))
    };
    kernel_file::follow(TABLE, "the table of mounts is read", &places, read).await;
}

/// Holds while a file system is mounted at one path.
pub struct MountCondition {
    path: PathBuf,
    places: watch::Receiver<Option<BTreeSet<PathBuf>>>,
}

impl Condition for MountCondition {
    fn level(&self) -> Level {
        self.places.borrow().as_ref().map(|places| places.contains(&self.path)).into()
    }

    fn missing(&self) -> Vec<Missing> {
        if self.holds() { Vec::new() } else { vec![Subject::Mount(self.path.clone()).into()] }
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        changed(&mut self.places)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    use tokio::time::timeout;

    use super::*;

    async fn becomes(condition: &mut MountCondition, holds: bool) {
        let reached = timeout(Duration::from_secs(10), async {
            while condition.level() != Level::from(holds) {
                condition.changed().await;
            }
        });
        reached.await.expect("the kernel reports the change");
    }

    #[tokio::test]
    async fn a_mount_that_comes_and_goes_is_followed() {
        let folder = PathBuf::from(format!("/dev/shm/kelson mounted {}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("makes a folder");
        let mounts = Mounts::default();
        let mut root = mounts.condition(Path::new("/"));
        becomes(&mut root, true).await;
        // As a file may write it.
        let mut condition = mounts.condition(&folder.join("."));
        becomes(&mut condition, false).await;
        assert_eq!(condition.missing(), [Subject::Mount(folder.clone()).into()]);
        for _ in 0..2 {
            let none = None::<&str>;
            mount(Some("tmpfs"), &folder, Some("tmpfs"), MsFlags::empty(), none).expect("needs root");
            becomes(&mut condition, true).await;
            assert_eq!(condition.missing(), []);
            umount2(&folder, MntFlags::MNT_DETACH).expect("unmounts");
            becomes(&mut condition, false).await;
        }
        std::fs::remove_dir(&folder).expect("removes");
    }
}
