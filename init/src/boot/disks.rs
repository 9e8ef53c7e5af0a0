//! The disks of the machine file: the order in which they are opened and mounted.

use std::path::Path;
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_spec::encryption::EncryptionSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::machine::MountSpec;

use super::Task;
use super::absent::{Absent, follows, has_files, is_within, open_name};
use super::devices::mount_task;
use super::encryption::open_task;

/// What is done to a disk.
#[derive(Clone, Copy)]
enum Step<'a> {
    Open(&'a EncryptionSpec),
    Mount(&'a MountSpec),
}

/// One task for each disk, in groups: those of a group can go side by side, because none lies within another.
pub fn tasks(
    launcher: &Arc<dyn Launcher>,
    encrypted: &[EncryptionSpec],
    mounts: &[MountSpec],
    absent: &Absent,
) -> Vec<Vec<Task>> {
    let task = |step: &Step| match *step {
        // The machine file names none.
        Step::Open(disk) if const { !OWN.has(Feature::Disks) } => {
            Task::call(open_name(disk), || Ok(String::new()))
        }
        Step::Open(disk) => open_task(launcher.clone(), disk.clone(), absent.clone()),
        Step::Mount(mount) => mount_task(launcher.clone(), mount.clone(), absent.clone()),
    };
    groups(&steps(encrypted, mounts)).iter().map(|group| group.iter().map(task).collect()).collect()
}

/// Mounts in the order of the file. An encrypted disk is opened before all of them, or after the last on which a file for it
/// lies.
fn steps<'a>(encrypted: &'a [EncryptionSpec], mounts: &'a [MountSpec]) -> Vec<Step<'a>> {
    let mut steps: Vec<Step> = mounts.iter().map(Step::Mount).collect();
    for disk in encrypted.iter().rev() {
        let last =
            steps.iter().rposition(|step| matches!(step, Step::Mount(mount) if has_files(mount, disk)));
        steps.insert(last.map_or(0, |last| last.saturating_add(1)), Step::Open(disk));
    }
    steps
}

impl Step<'_> {
    /// Whether it must come after an earlier one.
    fn follows(self, earlier: Step) -> bool {
        match (self, earlier) {
            (Step::Mount(mount), Step::Mount(earlier)) => follows(mount, earlier),
            (Step::Mount(mount), Step::Open(disk)) => is_within(mount, disk),
            (Step::Open(disk), Step::Mount(mount)) => has_files(mount, disk),
            (Step::Open(disk), Step::Open(outer)) => Path::new(&disk.source) == outer.device(),
        }
    }
}

/// Puts each step into the first group after all those that it must come after.
fn groups<'a>(steps: &[Step<'a>]) -> Vec<Vec<Step<'a>>> {
    let mut groups: Vec<Vec<Step>> = Vec::new();
    for step in steps.iter().copied() {
        let after = |earlier: &Step| step.follows(*earlier);
        let last = groups.iter().rposition(|group| group.iter().any(after));
        let place = last.map_or(0, |index| index.saturating_add(1));
        match groups.get_mut(place) {
            Some(group) => group.push(step),
            None => groups.push(vec![step]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::boot::devices::testing::mount;
    use crate::boot::{Order, Phase, Sequence};
    use crate::task::testing::Scripted;

    #[tokio::test]
    async fn a_disk_that_has_not_come_is_kept_for_later_with_what_lies_within() {
        let launcher: Arc<dyn Launcher> = Arc::new(Scripted::new(|line| {
            Some(if line.starts_with("identify") { "failed no disk" } else { "done mounted" })
        }));
        let sequence = Sequence::new(Duration::ZERO, None, Vec::new());
        let mounts = [mount("LABEL=VAR", "/var"), mount("tmpfs", "/var/tmp"), mount("tmpfs", "/scratch")];
        for group in tasks(&launcher, &[], &mounts, &Absent::new(sequence.sender())) {
            sequence.run(Phase::new("mounts", Order::SideBySide).tasks(group)).await.unwrap();
        }
        let report = sequence.report().borrow().clone();
        assert_eq!(report.absent, mounts[..2]);
        let errors: Vec<_> =
            report.phases.iter().flat_map(|phase| &phase.tasks).map(|task| task.error.as_deref()).collect();
        assert_eq!(
            errors,
            [
                Some("no disk; it is mounted when it comes"),
                None,
                Some("it waits for /var, whose disk has not come")
            ]
        );
    }

    /// The groups of steps, by the targets of mounts and the names of encrypted disks.
    fn names<'a>(encrypted: &'a [EncryptionSpec], mounts: &'a [MountSpec]) -> Vec<Vec<&'a str>> {
        let name = |step: &Step<'a>| match *step {
            Step::Open(disk) => disk.name.as_str(),
            Step::Mount(mount) => mount.target.to_str().unwrap(),
        };
        groups(&steps(encrypted, mounts)).iter().map(|group| group.iter().map(name).collect()).collect()
    }

    fn encrypted(name: &str, key: &str) -> EncryptionSpec {
        EncryptionSpec { name: name.to_owned(), key_file: Some(key.into()), ..EncryptionSpec::default() }
    }

    #[test]
    fn an_encrypted_disk_is_opened_before_its_mount_and_after_its_key() {
        let disks = [encrypted("data", "/etc/data.key"), encrypted("more", "/media/key/more.key")];
        let mounts = [
            mount("/dev/mapper/data", "/srv"),
            mount("LABEL=KEY", "/media/key"),
            mount("/dev/mapper/more", "/more"),
            mount("LABEL=X", "/x"),
        ];
        assert_eq!(
            names(&disks, &mounts),
            [vec!["data", "/media/key", "/x"], vec!["/srv", "more"], vec!["/more"]]
        );
    }

    #[tokio::test]
    async fn what_is_in_a_disk_that_stays_closed_is_kept_for_later() {
        let launcher: Arc<dyn Launcher> = Arc::new(Scripted::new(|line: &str| {
            Some(match line {
                "identify SERIAL=1 10000" => "done crypto_LUKS /dev/vdb",
                "identify SERIAL=2 10000" => "failed no disk",
                _ => "failed its key",
            })
        }));
        let sequence = Sequence::new(Duration::ZERO, None, Vec::new());
        let disk = |name: &str, number: u8| EncryptionSpec {
            source: format!("SERIAL={number}"),
            ..encrypted(&format!("no-such-{name}"), "/key")
        };
        let disks = [disk("here", 1), disk("late", 2)];
        let mounts = [mount("/dev/mapper/no-such-here", "/here"), mount("/dev/mapper/no-such-late", "/late")];
        let absent = Absent::new(sequence.sender());
        for group in tasks(&launcher, &disks, &mounts, &absent) {
            sequence.run(Phase::new("mounts", Order::SideBySide).tasks(group)).await.unwrap();
        }
        assert_eq!(absent.locked(), disks[1..], "the other is not tried again");
        let report = absent.report();
        assert_eq!(report.absent, mounts);
        let errors: Vec<_> =
            report.phases.iter().flat_map(|phase| &phase.tasks).map(|task| task.error.as_deref()).collect();
        assert_eq!(
            errors,
            [
                Some("its key; open it with `kelsonctl disk unlock no-such-here`"),
                Some("no disk; it is opened when it comes"),
                Some("it waits for the encrypted disk no-such-here, which is not open"),
                Some("it waits for the encrypted disk no-such-late, which is not open"),
            ]
        );
        for disk in &disks {
            absent.opened(disk, &Ok("open".to_owned()));
        }
        assert!(absent.report().locked.is_empty());
        assert_eq!(absent.report().phases[0].tasks[0].message, "open; after the boot");
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
        let targets = names(&[], &mounts);
        assert_eq!(
            targets,
            [vec!["/var", "/srv"], vec!["/var/log", "/home", "/srv/tmp"], vec!["/var/log/x"]]
        );
    }
}
