//! The mounts of the machine file, each by `kelson-task`, because the disk may be dead.
//!
//! After a power cut a file system is not clean. The first mount replays its journal; an ext4 that also has
//! errors is put right by `e2fsck -p` before it is mounted. A file system that it dares not put right by
//! itself is mounted read-only, and PID 1 reports that: it can be read, and nothing makes it worse.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::disk::DiskName;
use kelson_spec::machine::MountSpec;

use super::{Task, TaskFailure};
use kelson_helper::Launcher;

use crate::task::{self, Request};

/// How long a disk may take to appear.
const APPEAR: Duration = Duration::from_secs(10);
/// How long a disk may take to say what is on it.
const LOOK: Duration = Duration::from_secs(20);
/// How long a check may take: of a large disk with errors, minutes.
const CHECK: Duration = Duration::from_secs(600);
/// How long the mount itself may take: a journal is replayed.
const MOUNT: Duration = Duration::from_secs(90);

/// One task a mount, in groups: those of a group can go side by side, because none lies within another.
pub fn tasks(launcher: &Arc<dyn Launcher>, mounts: &[MountSpec]) -> Vec<Vec<Task>> {
    groups(mounts)
        .into_iter()
        .map(|group| group.into_iter().map(|mount| mount_task(launcher.clone(), mount.clone())).collect())
        .collect()
}

fn mount_task(launcher: Arc<dyn Launcher>, mount: MountSpec) -> Task {
    let name = format!("mount {}", mount.target.display());
    let longest = APPEAR.saturating_add(LOOK).saturating_add(CHECK).saturating_add(MOUNT).saturating_mul(2);
    Task::new(name, async move { carry_out(launcher.as_ref(), mount).await }).within(longest)
}

async fn carry_out(launcher: &dyn Launcher, mount: MountSpec) -> Result<String, TaskFailure> {
    let mut options = mount.options.join(",");
    if mount.target == Path::new("/") {
        // The root is there already; its options are what can be changed.
        let request = Request::Remount { target: mount.target, options };
        return Ok(task::run(launcher, &request, MOUNT).await?);
    }
    let (mut said, mut unsound) = (String::new(), None);
    if is_checked(&mount)
        && let Some(device) = ext4_device(launcher, &mount.source).await?
    {
        match task::run(launcher, &Request::Check { device }, CHECK).await {
            Ok(text) => said = text,
            Err(error) => {
                unsound = Some(error);
                options.push_str(",ro");
            }
        }
    }
    let request = Request::Mount {
        source: mount.source,
        target: mount.target,
        fs_type: mount.fs_type,
        options,
        patience: APPEAR,
    };
    let done = task::run(launcher, &request, APPEAR.saturating_add(MOUNT)).await?;
    match unsound {
        Some(error) => Err(TaskFailure::from(format!("{done}, read-only, as it is not sound: {error}"))),
        None if said.is_empty() => Ok(done),
        None => Ok(format!("{done}; {said}")),
    }
}

/// A check writes to the disk, and is for ext4 and its forerunners.
fn is_checked(mount: &MountSpec) -> bool {
    let words = || mount.options.iter().flat_map(|option| option.split(',')).map(str::trim);
    let read_only = words().rfind(|word| matches!(*word, "ro" | "rw")) == Some("ro");
    DiskName::parse(&mount.source).is_some()
        && !read_only
        && !words().any(|word| matches!(word, "bind" | "rbind"))
        && matches!(mount.fs_type.as_str(), "" | "auto" | "ext2" | "ext3" | "ext4")
}

/// The device, if an ext4 is on it.
async fn ext4_device(launcher: &dyn Launcher, source: &str) -> Result<Option<PathBuf>, TaskFailure> {
    let request = Request::Identify { source: source.to_owned(), patience: APPEAR };
    let found = task::run(launcher, &request, APPEAR.saturating_add(LOOK)).await?;
    Ok(found.strip_prefix("ext4 ").map(PathBuf::from))
}

/// Puts each mount into the first group after all those that it lies within, or that are mounted from within it.
fn groups(mounts: &[MountSpec]) -> Vec<Vec<&MountSpec>> {
    let mut groups: Vec<Vec<&MountSpec>> = Vec::new();
    for mount in mounts {
        let after = |earlier: &&MountSpec| {
            mount.target.starts_with(&earlier.target)
                || earlier.target.starts_with(&mount.target)
                || PathBuf::from(&mount.source).starts_with(&earlier.target)
        };
        let last = groups.iter().rposition(|group| group.iter().any(after));
        let place = last.map_or(0, |index| index.saturating_add(1));
        match groups.get_mut(place) {
            Some(group) => group.push(mount),
            None => groups.push(vec![mount]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::Scripted;

    fn mount(source: &str, target: &str) -> MountSpec {
        MountSpec {
            source: source.to_owned(),
            target: target.into(),
            fs_type: "ext4".to_owned(),
            options: vec![],
        }
    }

    const IDENTIFY: &str = "identify LABEL=STATE 10000";

    #[tokio::test]
    async fn a_disk_is_checked_before_it_is_mounted() {
        let launcher = Scripted::new(|line| match line {
            IDENTIFY => Some("done ext4 /dev/vdb\n"),
            "fsck /dev/vdb" => Some("done clean\n"),
            _ => Some("done /dev/vdb on /var\n"),
        });
        let said = carry_out(&launcher, mount("LABEL=STATE", "/var")).await.unwrap();
        assert_eq!(said, "/dev/vdb on /var; clean");
        let asked = launcher.1.lock().unwrap().clone();
        assert_eq!(asked, [IDENTIFY, "fsck /dev/vdb", "mount LABEL=STATE /var ext4  10000"]);
    }

    #[tokio::test]
    async fn a_disk_that_cannot_be_put_right_is_mounted_read_only() {
        let launcher = Scripted::new(|line| match line {
            IDENTIFY => Some("done ext4 /dev/vdb\n"),
            "fsck /dev/vdb" => Some("failed UNEXPECTED INCONSISTENCY\n"),
            _ => Some("done /dev/vdb on /var\n"),
        });
        let error = carry_out(&launcher, mount("LABEL=STATE", "/var")).await.unwrap_err();
        assert!(!error.fatal);
        assert_eq!(
            error.message,
            "/dev/vdb on /var, read-only, as it is not sound: UNEXPECTED INCONSISTENCY"
        );
        assert_eq!(launcher.1.lock().unwrap().last().unwrap(), "mount LABEL=STATE /var ext4 ,ro 10000");
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_does_not_answer_costs_its_look_alone() {
        let launcher = Scripted::new(|_| None);
        let begun = tokio::time::Instant::now();
        let error = carry_out(&launcher, mount("LABEL=STATE", "/var")).await.unwrap_err();
        assert!(error.message.contains("kelson-task identify did not answer"), "{error:?}");
        assert_eq!(begun.elapsed(), APPEAR + LOOK);
    }

    #[tokio::test]
    async fn what_is_no_ext4_or_only_read_is_not_checked() {
        let launcher = Scripted::new(|line| {
            Some(if line.starts_with("identify") { "done xfs /dev/vdb\n" } else { "done it\n" })
        });
        let read_only = MountSpec { options: vec!["noatime".into(), "ro".into()], ..mount("/dev/vdb", "/a") };
        let memory = MountSpec { fs_type: "tmpfs".to_owned(), ..mount("tmpfs", "/b") };
        let found = MountSpec { fs_type: String::new(), ..mount("/dev/vdb", "/c") };
        for mount in [read_only, memory, found] {
            carry_out(&launcher, mount).await.unwrap();
        }
        let asked = launcher.1.lock().unwrap().clone();
        assert!(!asked.iter().any(|line| line.starts_with("fsck")), "{asked:?}");
        assert_eq!(asked.iter().filter(|line| line.starts_with("identify")).count(), 1);
    }

    #[test]
    fn what_lies_within_another_is_mounted_after_it() {
        let mounts = [
            mount("LABEL=STATE", "/var"),
            mount("LABEL=DATA", "/srv"),
            mount("LABEL=LOG", "/var/log"),
            mount("/var/www", "/home"),
            mount("tmpfs", "/srv/tmp"),
            mount("LABEL=X", "/var/log/x"),
        ];
        let targets: Vec<Vec<&str>> = groups(&mounts)
            .iter()
            .map(|group| group.iter().map(|mount| mount.target.to_str().unwrap()).collect())
            .collect();
        assert_eq!(
            targets,
            [vec!["/var", "/srv"], vec!["/var/log", "/home", "/srv/tmp"], vec!["/var/log/x"]]
        );
    }
}
