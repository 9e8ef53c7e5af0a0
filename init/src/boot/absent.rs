//! Mounts whose disks had not come, disks that had not come to get partitions, and encrypted disks that were not open, when the
//! boot went on. They are made when the disks come, or are opened.
//!
//! The list is a part of the report of the boot, so that a later incarnation of PID 1 finds it there.

use std::path::{Path, PathBuf};

use kelson_services::host::{BootReport, LockedDisk};
use kelson_spec::encryption::EncryptionSpec;
use kelson_spec::machine::MountSpec;
use kelson_spec::partitions::DiskPartitionsSpec;
use tokio::sync::watch;

use super::TaskFailure;

/// The list. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Absent(watch::Sender<BootReport>);

impl Absent {
    pub fn new(report: watch::Sender<BootReport>) -> Absent {
        Absent(report)
    }

    /// The disk of this mount has not come.
    pub fn put(&self, mount: MountSpec) {
        self.0.send_modify(|report| report.absent.push(mount));
    }

    /// An encrypted disk is not open.
    pub fn put_locked(&self, disk: EncryptionSpec, refused: bool) {
        self.0.send_modify(|report| report.locked.push(LockedDisk { disk, refused }));
    }

    /// A disk that is to get partitions has not come.
    pub fn put_unpartitioned(&self, disk: &DiskPartitionsSpec) {
        self.0.send_modify(|report| report.unpartitioned.push(disk.to_word()));
    }

    /// The disks that are to get partitions.
    pub fn unpartitioned(&self) -> Vec<DiskPartitionsSpec> {
        let report = self.0.borrow();
        report.unpartitioned.iter().filter_map(|word| DiskPartitionsSpec::from_word(word)).collect()
    }

    /// This disk has come, and got its partitions or not.
    pub fn partitioned(&self, disk: &DiskPartitionsSpec, result: &Result<String, TaskFailure>) {
        self.0.send_modify(|report| {
            report.unpartitioned.retain(|waiting| *waiting != disk.to_word());
            settle(report, &partitions_name(disk), result);
        });
    }

    /// What must come before this mount can be made: an absent mount, or an encrypted disk.
    pub fn holds_up(&self, mount: &MountSpec) -> Option<String> {
        let report = self.0.borrow();
        let absent = report.absent.iter().find(|absent| follows(mount, absent));
        let locked = || report.locked.iter().find(|locked| is_within(mount, &locked.disk));
        match absent {
            Some(absent) => Some(format!("{}, whose disk has not come", absent.target.display())),
            None => {
                locked().map(|locked| format!("the encrypted disk {}, which is not open", locked.disk.name))
            }
        }
    }

    /// The place of an absent mount on which a file for this encrypted disk lies.
    pub fn holds_up_key(&self, disk: &EncryptionSpec) -> Option<PathBuf> {
        let report = self.0.borrow();
        let mount = report.absent.iter().find(|mount| has_files(mount, disk))?;
        Some(mount.target.clone())
    }

    /// The encrypted disks that wait to be opened.
    pub fn locked(&self) -> Vec<EncryptionSpec> {
        let report = self.0.borrow();
        let waits = |disk: &EncryptionSpec| report.absent.iter().any(|mount| has_files(mount, disk));
        let absent = report.locked.iter().filter(|locked| !locked.refused && !waits(&locked.disk));
        absent.map(|locked| locked.disk.clone()).collect()
    }

    /// This encrypted disk has come, and was opened or not.
    pub fn opened(&self, disk: &EncryptionSpec, result: &Result<String, TaskFailure>) {
        self.0.send_modify(|report| {
            match result {
                Ok(_) => report.locked.retain(|locked| locked.disk != *disk),
                Err(_) => {
                    let locked = report.locked.iter_mut().filter(|locked| locked.disk == *disk);
                    locked.for_each(|locked| locked.refused = true);
                }
            }
            settle(report, &open_name(disk), result);
        });
    }

    /// The absent mounts that wait for their own disks alone.
    pub fn free(&self) -> Vec<MountSpec> {
        let report = self.0.borrow();
        let waits = |place: usize, mount: &MountSpec| {
            report.absent.iter().take(place).any(|earlier| follows(mount, earlier))
        };
        let free = report.absent.iter().enumerate().filter(|(place, mount)| !waits(*place, mount));
        free.map(|(_, mount)| mount.clone()).collect()
    }

    /// The disk of this mount has come, and the mount was made or has failed.
    pub fn came(&self, mount: &MountSpec, result: &Result<String, TaskFailure>) {
        self.0.send_modify(|report| {
            report.absent.retain(|absent| absent != mount);
            settle(report, &task_name(mount), result);
        });
    }

    /// The report that has the list.
    pub fn report(&self) -> BootReport {
        self.0.borrow().clone()
    }
}

/// Puts the result of a failed task of the boot that was done again in the place of its failure.
fn settle(report: &mut BootReport, name: &str, result: &Result<String, TaskFailure>) {
    let tasks = report.phases.iter_mut().flat_map(|phase| &mut phase.tasks);
    for task in tasks.filter(|task| task.name == name && task.error.is_some()) {
        task.error = result.as_ref().err().map(|failure| failure.message.clone());
        task.message = result.as_ref().map(|done| format!("{done}; after the boot")).unwrap_or_default();
    }
}

/// The name of the task that makes the partitions of a disk.
pub fn partitions_name(disk: &DiskPartitionsSpec) -> String {
    format!("partitions {}", disk.disk)
}

/// The name of the task that opens the encrypted disk.
pub fn open_name(disk: &EncryptionSpec) -> String {
    format!("open {}", disk.name)
}

/// The name of the mount's task in the boot.
pub fn task_name(mount: &MountSpec) -> String {
    format!("mount {}", mount.target.display())
}

/// Whether a mount lies within an earlier one, over it, or is mounted from within it.
pub fn follows(mount: &MountSpec, earlier: &MountSpec) -> bool {
    mount.target.starts_with(&earlier.target)
        || earlier.target.starts_with(&mount.target)
        || PathBuf::from(&mount.source).starts_with(&earlier.target)
}

/// Whether the mount is of what is in this encrypted disk.
pub fn is_within(mount: &MountSpec, disk: &EncryptionSpec) -> bool {
    Path::new(&mount.source) == disk.device()
}

/// Whether a file that the disk is opened with lies on this mount.
pub fn has_files(mount: &MountSpec, disk: &EncryptionSpec) -> bool {
    mount.target != Path::new("/") && disk.files().any(|file| file.starts_with(&mount.target))
}

#[cfg(test)]
mod tests {
    use kelson_services::host::{PhaseRecord, TaskRecord};

    use super::*;

    fn mount(source: &str, target: &str) -> MountSpec {
        MountSpec { source: source.to_owned(), target: target.into(), ..MountSpec::default() }
    }

    #[test]
    fn a_mount_within_an_absent_one_waits_for_it() {
        let absent = Absent::new(watch::Sender::default());
        let (outer, beside) = (mount("LABEL=VAR", "/var"), mount("LABEL=SRV", "/srv"));
        absent.put(outer.clone());
        absent.put(beside.clone());
        let (inner, bound) = (mount("LABEL=LOG", "/var/log"), mount("/srv/www", "/www"));
        let waits = |mount| absent.holds_up(mount).unwrap();
        assert_eq!(waits(&inner), "/var, whose disk has not come");
        assert_eq!(waits(&bound), "/srv, whose disk has not come");
        assert_eq!(absent.holds_up(&mount("LABEL=X", "/x")), None);
        absent.put(inner.clone());
        absent.put(bound);
        assert_eq!(absent.free(), [outer.clone(), beside.clone()]);
        absent.came(&outer, &Ok(String::new()));
        assert_eq!(absent.free(), [beside, inner]);
    }

    #[test]
    fn the_report_says_that_it_came_after_the_boot() {
        let failed = TaskRecord {
            name: "mount /var".to_owned(),
            error: Some("no disk".to_owned()),
            ..TaskRecord::default()
        };
        let phase = PhaseRecord { tasks: vec![failed], ..PhaseRecord::default() };
        let absent =
            Absent::new(watch::Sender::new(BootReport { phases: vec![phase], ..BootReport::default() }));
        let disk = mount("LABEL=VAR", "/var");
        absent.put(disk.clone());
        absent.came(&disk, &Err(TaskFailure::from("it is no ext4")));
        assert_eq!(absent.report().phases[0].tasks[0].error.as_deref(), Some("it is no ext4"));
        absent.came(&disk, &Ok("/dev/vdb on /var".to_owned()));
        let report = absent.report();
        let task = &report.phases[0].tasks[0];
        assert_eq!(
            (task.error.as_deref(), task.message.as_str()),
            (None, "/dev/vdb on /var; after the boot")
        );
        assert!(report.absent.is_empty());
    }
}
