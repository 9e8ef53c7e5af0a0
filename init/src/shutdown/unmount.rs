//! Unmounting: in reverse order, again and again until nothing more comes off.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use kelson_sys::mountinfo::{self, Mount};
use tokio::time::Instant;

use super::disks;
use crate::initramfs;
use kelson_helper::Launcher;

use crate::task::{self, Request, TaskError};

/// A mount that did not come off, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    pub mount: Mount,
    pub why: String,
    /// It did not even answer: whatever touches it hangs.
    pub dead: bool,
}

/// How and how long to unmount.
pub struct Unmounter<'a> {
    pub launcher: &'a dyn Launcher,
    pub read: &'a (dyn Fn() -> Vec<Mount> + Sync),
    /// One call.
    pub call: Duration,
    /// All of it.
    pub deadline: Instant,
}

/// Unmounts all but the root, what it is made of, and the kernel's own file systems.
pub async fn all_but_root(launcher: &dyn Launcher, call: Duration, deadline: Instant) {
    let read = || mountinfo::read().unwrap_or_default();
    let unmounter = Unmounter { launcher, read: &read, call, deadline };
    let mut stuck = unmounter.run(&|mount| !is_kept(mount)).await;
    // A loop device that lets go frees the file system that its file is on.
    // So does an encrypted disk; it also keeps its loop device.
    let (removed, _) = disks::remove_mappings(launcher, call).await;
    if !stuck.is_empty() && disks::detach_loops(launcher, call).await.saturating_add(removed) > 0 {
        stuck = unmounter.run(&|mount| !is_kept(mount)).await;
    }
    unmounter.make_read_only(&stuck).await;
}

/// Stays until the root goes: the root, what lies beneath it, and where the kernel's interfaces are. Below `/run` that is
/// memory alone: the root of a container that was left behind there would hold the disk that its layers are on.
fn is_kept(mount: &Mount) -> bool {
    let target = &mount.target;
    let of_memory = matches!(mount.fs_type.as_str(), "tmpfs" | "ramfs");
    target == Path::new("/")
        || ["/proc", "/sys", "/dev"].iter().any(|kept| target.starts_with(kept))
        || target.starts_with("/run") && (of_memory || target.starts_with(initramfs::PARTS))
}

impl Unmounter<'_> {
    /// Unmounts all that `wanted` names, and returns what would not come off.
    pub async fn run(&self, wanted: &(dyn Fn(&Mount) -> bool + Sync)) -> Vec<Stuck> {
        let mut dead: BTreeSet<u32> = BTreeSet::new();
        loop {
            let mounts = (self.read)();
            let mut stuck = Vec::new();
            let mut progress = false;
            for mount in mountinfo::unmount_order(&mounts).into_iter().filter(|mount| wanted(mount)) {
                let result = if dead.contains(&mount.id) {
                    Err(("it does not answer".to_owned(), true))
                } else if Instant::now() >= self.deadline {
                    Err(("the time for it is over".to_owned(), false))
                } else {
                    self.unmount(&mount.target).await
                };
                match result {
                    Ok(()) => progress = true,
                    Err((why, hangs)) => {
                        if hangs {
                            dead.insert(mount.id);
                        }
                        stuck.push(Stuck { mount: mount.clone(), why, dead: hangs });
                    }
                }
            }
            if stuck.is_empty() || !progress {
                return stuck;
            }
        }
    }

    async fn unmount(&self, target: &Path) -> Result<(), (String, bool)> {
        let left = self.deadline.saturating_duration_since(Instant::now()).min(self.call);
        match task::run(self.launcher, &Request::Unmount { target: target.to_owned() }, left).await {
            Ok(_) => Ok(()),
            Err(error) => Err((error.to_string(), matches!(error, TaskError::Late { .. }))),
        }
    }

    /// The last resort for disks that stay mounted: nothing more is written to them.
    pub async fn make_read_only(&self, stuck: &[Stuck]) {
        for stuck in stuck {
            let target = &stuck.mount.target;
            if !stuck.mount.on_disk() || !stuck.mount.writable() {
                if !stuck.mount.on_disk() {
                    tracing::info!("shutdown: {} stays mounted: {}", target.display(), stuck.why);
                }
                continue;
            }
            if stuck.dead {
                tracing::error!(
                    "shutdown: gave up on {} ({}): {}",
                    target.display(),
                    stuck.mount.source,
                    stuck.why
                );
                continue;
            }
            let request = Request::Remount { target: target.clone(), options: "ro".to_owned() };
            match task::run(self.launcher, &request, self.call).await {
                Ok(_) => tracing::warn!(
                    "shutdown: {} is read-only now; it stays mounted: {}",
                    target.display(),
                    stuck.why
                ),
                Err(error) => tracing::error!(
                    "shutdown: gave up on {} ({}): {}; read-only: {error}",
                    target.display(),
                    stuck.mount.source,
                    stuck.why
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::Scripted;
    use std::sync::Mutex;

    const MOUNTS: &str = "\
1 0 254:1 / / rw - ext4 /dev/vda1 rw
2 1 0:2 / /proc rw - proc proc rw
3 1 254:2 / /var rw - ext4 /dev/vda2 rw
4 3 7:0 / /var/image rw - ext4 /dev/loop0 rw
5 1 254:3 / /srv rw - ext4 /dev/vda3 rw
6 1 254:4 / /dead rw - ext4 /dev/vda4 rw
";

    #[test]
    fn below_run_only_memory_and_the_roots_parts_stay() {
        let mounts = mountinfo::parse(
            b"1 0 0:20 / / rw - overlay overlay rw\n\
2 1 0:21 / /run rw - tmpfs tmpfs rw\n\
3 2 254:1 / /run/kelson/root/disk rw - ext4 /dev/vda rw\n\
4 2 0:22 / /run/kelson/state rw - tmpfs tmpfs rw\n\
5 2 0:23 / /run/kelson/containerd/state/io.containerd.runtime.v2.task/kelson/web/rootfs rw - overlay overlay rw\n\
6 1 254:1 /state /var/lib/kelson rw - ext4 /dev/vda rw\n",
        );
        let gone: Vec<u32> = mounts.iter().filter(|mount| !is_kept(mount)).map(|mount| mount.id).collect();
        assert_eq!(gone, [5, 6]);
    }

    /// A machine on which `busy` comes off only in the second round, and `/dead` hangs.
    async fn play(busy: Option<&'static str>) -> (Vec<String>, Vec<Stuck>) {
        let mounts = Mutex::new(mountinfo::parse(MOUNTS.as_bytes()));
        let busy = Mutex::new(busy);
        let launcher = Scripted::new(|line| {
            let (verb, target) = line.split_once(' ').unwrap();
            if target == "/dead" {
                return None;
            }
            if verb == "umount" && busy.lock().unwrap().take_if(|busy| *busy == target).is_some() {
                return Some("failed busy\n");
            }
            if target == "/var" && mounts.lock().unwrap().iter().any(|mount| mount.id == 4) {
                return Some("failed busy\n");
            }
            mounts.lock().unwrap().retain(|mount| mount.target != Path::new(target));
            Some("done\n")
        });
        let read = || mounts.lock().unwrap().clone();
        let unmounter = Unmounter {
            launcher: &launcher,
            read: &read,
            call: Duration::from_secs(5),
            deadline: Instant::now() + Duration::from_secs(60),
        };
        let stuck = unmounter.run(&|mount| !is_kept(mount)).await;
        let lines = launcher.1.lock().unwrap().clone();
        (lines, stuck)
    }

    #[tokio::test(start_paused = true)]
    async fn mounts_come_off_from_the_inside_and_a_dead_one_costs_one_deadline() {
        let begun = Instant::now();
        let (lines, stuck) = play(None).await;
        assert_eq!(lines, ["umount /dead", "umount /srv", "umount /var/image", "umount /var"]);
        assert_eq!(stuck.len(), 1);
        assert!(stuck[0].dead && stuck[0].mount.target == Path::new("/dead"));
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_busy_is_tried_again_while_others_come_off() {
        let (lines, stuck) = play(Some("/var/image")).await;
        assert_eq!(
            lines,
            [
                "umount /dead",
                "umount /srv",
                "umount /var/image",
                "umount /var",
                "umount /var/image",
                "umount /var"
            ]
        );
        assert_eq!(stuck.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_resort_is_read_only_and_the_dead_are_left_alone() {
        let mounts = mountinfo::parse(MOUNTS.as_bytes());
        let launcher = Scripted::new(|_| Some("done\n"));
        let read = Vec::new;
        let unmounter = Unmounter {
            launcher: &launcher,
            read: &read,
            call: Duration::from_secs(5),
            deadline: Instant::now() + Duration::from_secs(60),
        };
        let stuck = |index: usize, dead| Stuck { mount: mounts[index].clone(), why: "busy".to_owned(), dead };
        unmounter.make_read_only(&[stuck(1, false), stuck(2, false), stuck(5, true)]).await;
        assert_eq!(*launcher.1.lock().unwrap(), ["remount /var ro"]);
    }
}
