//! The folder of what must outlive a reboot, on a root that is an overlay.
//!
//! The snapshots of containers are overlays themselves, and the kernel takes no folder of an overlay to write
//! them to. So the folder gets a file system beneath it that is none: the disk (or the memory) that is laid
//! over the root's image, whose mount our own initramfs leaves under `/run/kelson/root/`; where there is
//! none, memory of its own. A mount of the machine file there counts: by then its place is no overlay any
//! more.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::task::Octal;
use kelson_sys::mountinfo::{self, Mount};

use super::{Task, TaskFailure};
use crate::initramfs;
use kelson_helper::Launcher;

use crate::task::{self, Request};

/// The folder on what is laid over the image, beside the overlay's own two.
pub const NAME: &str = "state";
/// Root's alone: it holds the files of all containers.
const MODE: Octal = Octal(0o700);
/// One call; the disk may be slow.
const CALL: Duration = Duration::from_secs(30);

/// The kind of file system that the folder gets.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Plan {
    /// Nothing, and why.
    Leave(String),
    /// A folder of a file system that is mounted elsewhere.
    Bind(PathBuf),
    Memory,
}

/// Gives `folder` a file system that overlays can lie on.
pub fn task(launcher: Arc<dyn Launcher>, folder: PathBuf) -> Task {
    let name = format!("mount {}", folder.display());
    let work = async move {
        let mounts = mountinfo::read()?;
        carry_out(launcher.as_ref(), &plan(&mounts, &folder), folder).await
    };
    Task::new(name, work).within(CALL.saturating_mul(3))
}

fn plan(mounts: &[Mount], folder: &Path) -> Plan {
    // In the kernel's order the later of two at one place lies over the earlier.
    let around = mounts.iter().filter(|mount| folder.starts_with(&mount.target));
    let Some(beneath) = around.max_by_key(|mount| mount.target.components().count()) else {
        return Plan::Leave("no mount is seen at /".to_owned());
    };
    if beneath.fs_type != "overlay" {
        return Plan::Leave(format!("it lies on {} ({})", beneath.target.display(), beneath.fs_type));
    }
    if let Some(inside) = mounts.iter().find(|mount| mount.target.starts_with(folder)) {
        return Plan::Leave(format!("{} is mounted in it", inside.target.display()));
    }
    let parts = [initramfs::DISK, initramfs::MEMORY].map(|part| Path::new(initramfs::PARTS).join(part));
    let writable = parts.iter().find(|part| mountinfo::topmost(mounts, part).is_some_and(Mount::writable));
    writable.map_or(Plan::Memory, |part| Plan::Bind(part.join(NAME)))
}

async fn carry_out(launcher: &dyn Launcher, plan: &Plan, folder: PathBuf) -> Result<String, TaskFailure> {
    let (source, fs_type, options) = match plan {
        Plan::Leave(why) => return Ok(why.clone()),
        Plan::Bind(source) => {
            let request = Request::MakeFolder { path: source.clone(), mode: MODE };
            task::run(launcher, &request, CALL).await?;
            (source.display().to_string(), "none", "bind".to_owned())
        }
        Plan::Memory => ("tmpfs".to_owned(), "tmpfs", format!("mode={:04o}", MODE.0)),
    };
    let fs_type = fs_type.to_owned();
    let request = Request::Mount { source, target: folder, fs_type, options, patience: Duration::ZERO };
    task::run(launcher, &request, CALL).await.map_err(TaskFailure::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::Scripted;

    const FOLDER: &str = "/var/lib/kelson";
    const OVERLAY: &str = "1 0 0:20 / / rw - overlay overlay rw\n2 1 0:21 / /run rw - tmpfs tmpfs rw\n";
    const DISK: &str = "3 2 254:1 / /run/kelson/root/disk rw - ext4 /dev/vda rw\n";
    const MEMORY: &str = "4 2 0:22 / /run/kelson/root/memory rw - tmpfs tmpfs rw\n";

    fn planned(mounts: &[&str]) -> Plan {
        plan(&mountinfo::parse(mounts.concat().as_bytes()), Path::new(FOLDER))
    }

    fn left(plan: Plan) -> String {
        match plan {
            Plan::Leave(why) => why,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn an_overlay_is_covered_by_what_it_is_made_of() {
        assert_eq!(planned(&[OVERLAY, DISK]), Plan::Bind("/run/kelson/root/disk/state".into()));
        assert_eq!(planned(&[OVERLAY, MEMORY]), Plan::Bind("/run/kelson/root/memory/state".into()));
        assert_eq!(planned(&[OVERLAY]), Plan::Memory);
        let read_only = "3 2 254:1 / /run/kelson/root/disk ro - ext4 /dev/vda ro\n";
        assert_eq!(planned(&[OVERLAY, read_only]), Plan::Memory);
    }

    #[test]
    fn what_is_no_overlay_is_left_alone() {
        assert_eq!(left(planned(&["1 0 254:1 / / rw - ext4 /dev/vda rw\n"])), "it lies on / (ext4)");
        let var = "5 1 254:2 / /var rw - ext4 /dev/vdb rw\n";
        assert_eq!(left(planned(&[OVERLAY, DISK, var])), "it lies on /var (ext4)");
        let own = "5 1 254:2 / /var/lib/kelson rw - xfs /dev/vdb rw\n";
        assert_eq!(left(planned(&[OVERLAY, DISK, own])), "it lies on /var/lib/kelson (xfs)");
        let within = "5 1 254:2 / /var/lib/kelson/containerd rw - ext4 /dev/vdb rw\n";
        assert_eq!(left(planned(&[OVERLAY, DISK, within])), "/var/lib/kelson/containerd is mounted in it");
        // Another place whose name begins alike is another place.
        let beside = "5 1 254:2 / /var/lib/kelson-old rw - ext4 /dev/vdb rw\n";
        assert_eq!(planned(&[OVERLAY, DISK, beside]), Plan::Bind("/run/kelson/root/disk/state".into()));
        assert_eq!(left(planned(&[])), "no mount is seen at /");
    }

    #[test]
    fn of_two_mounts_at_one_place_the_later_counts() {
        let disk = "5 1 254:2 / /var rw - ext4 /dev/vdb rw\n";
        let over = "6 5 0:30 / /var rw - overlay overlay rw\n";
        assert_eq!(planned(&[OVERLAY, disk, over]), Plan::Memory);
        assert_eq!(left(planned(&[OVERLAY, over, disk])), "it lies on /var (ext4)");
    }

    #[tokio::test]
    async fn the_folder_is_made_before_it_is_bound() {
        let launcher = Scripted::new(|_| Some("done\n"));
        let plan = Plan::Bind("/run/kelson/root/disk/state".into());
        carry_out(&launcher, &plan, FOLDER.into()).await.unwrap();
        carry_out(&launcher, &Plan::Memory, FOLDER.into()).await.unwrap();
        assert_eq!(
            *launcher.1.lock().unwrap(),
            [
                "mkdir /run/kelson/root/disk/state 700",
                "mount /run/kelson/root/disk/state /var/lib/kelson none bind 0",
                "mount tmpfs /var/lib/kelson tmpfs mode=0700 0"
            ]
        );
        let full = Scripted::new(|_| Some("failed no space left\n"));
        let error = carry_out(&full, &plan, FOLDER.into()).await.unwrap_err();
        assert!(!error.fatal && error.message.contains("no space left"), "{error:?}");
        assert_eq!(full.1.lock().unwrap().len(), 1, "nothing is bound that is not there");
    }
}
