//! The mounts of the machine file, each by `kelson-task`, because the disk may be dead.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::machine::MountSpec;

use super::{Task, TaskFailure};
use crate::task::{self, Launcher, Request};

/// How long a disk may take to appear.
const PATIENCE: Duration = Duration::from_secs(10);
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
    let work = async move {
        let options = mount.options.join(",");
        let request = if mount.target == Path::new("/") {
            // The root is there already; its options are what can be changed.
            Request::Remount { target: mount.target, options }
        } else {
            Request::Mount {
                source: mount.source,
                target: mount.target,
                fs_type: mount.fs_type,
                options,
                patience: PATIENCE,
            }
        };
        task::run(launcher.as_ref(), &request, PATIENCE.saturating_add(MOUNT))
            .await
            .map_err(TaskFailure::from)
    };
    Task::new(name, work).within(PATIENCE.saturating_add(MOUNT).saturating_mul(2))
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

    fn mount(source: &str, target: &str) -> MountSpec {
        MountSpec {
            source: source.to_owned(),
            target: target.into(),
            fs_type: "ext4".to_owned(),
            options: vec![],
        }
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
