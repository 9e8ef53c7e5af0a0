//! The partitions of the machine file, made by `kelson-task` before disks are mounted.

use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::partitions::{DiskPartitionsSpec, PartitionSpec};

use super::absent::{Absent, partitions_name};
use super::devices::{LOOK, MountFailure, find};
use super::{Order, Phase, Task, TaskFailure};
use crate::task::{self, Request};

/// How long it may take to look at a disk and to write its table.
const CALL: Duration = Duration::from_secs(60);

/// One task for each disk that is not among `done`. None is essential.
pub fn phase(
    disks: &[DiskPartitionsSpec],
    done: &[DiskPartitionsSpec],
    launcher: &Arc<dyn Launcher>,
    absent: &Absent,
) -> Option<Phase> {
    if const { !OWN.has(Feature::Disks) } {
        return None;
    }
    let task = |disk: &DiskPartitionsSpec| {
        let (launcher, disk, absent) = (Arc::clone(launcher), disk.clone(), absent.clone());
        let longest = disk.wait.saturating_add(LOOK).saturating_add(CALL).saturating_mul(2);
        let name = partitions_name(&disk);
        let work = async move {
            match carry_out(&*launcher, &disk, disk.wait).await {
                Ok(done) => Ok(done),
                Err(MountFailure::Mount(failure)) => Err(failure),
                Err(MountFailure::NoDisk(error)) => {
                    absent.put_unpartitioned(&disk);
                    Err(TaskFailure::from(format!("{error}; it gets its partitions when it comes")))
                }
            }
        };
        Task::new(name, work).within(longest)
    };
    let tasks: Vec<Task> = disks.iter().filter(|disk| !done.contains(disk)).map(task).collect();
    (!tasks.is_empty()).then(|| Phase::new("partitions", Order::SideBySide).tasks(tasks))
}

/// Waits at most `wait` for the disk, and makes the partitions that it lacks.
///
/// # Errors
/// When it has not come by then, or does not get them.
pub async fn carry_out(
    launcher: &dyn Launcher,
    disk: &DiskPartitionsSpec,
    wait: Duration,
) -> Result<String, MountFailure> {
    find(launcher, &disk.disk, wait).await?;
    let partitions = disk.create.iter().map(PartitionSpec::to_word).collect();
    let request = Request::MakePartitions { source: disk.disk.clone(), partitions };
    Ok(task::run(launcher, &request, CALL).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Sequence;
    use crate::task::testing::Scripted;

    fn disk() -> DiskPartitionsSpec {
        let part =
            |label: &str, size| PartitionSpec { label: label.to_owned(), size, ..PartitionSpec::default() };
        DiskPartitionsSpec {
            disk: "SERIAL=S".to_owned(),
            create: vec![part("DATA", Some(1 << 20)), part("REST", None)],
            ..DiskPartitionsSpec::default()
        }
    }

    #[tokio::test]
    async fn a_disk_gets_its_partitions_and_one_that_has_not_come_is_kept_for_later() {
        for (found, made, error, late) in [
            ("done - /dev/vdb", "done new", None, vec![]),
            ("done - /dev/vdb", "failed it is not blank", Some("it is not blank"), vec![]),
            ("failed no disk", "", Some("no disk; it gets its partitions when it comes"), vec![disk()]),
        ] {
            let scripted = Arc::new(Scripted::new(move |line: &str| {
                Some(if line.starts_with("identify") { found } else { made })
            }));
            let launcher: Arc<dyn Launcher> = scripted.clone();
            let sequence = Sequence::new(Duration::ZERO, None, Vec::new());
            let absent = Absent::new(sequence.sender());
            sequence.run_all(phase(&[disk()], &[], &launcher, &absent)).await.unwrap();
            let report = absent.report();
            let task = &report.phases[0].tasks[0];
            assert_eq!((task.name.as_str(), task.error.as_deref()), ("partitions SERIAL=S", error));
            assert_eq!(absent.unpartitioned(), late);
            let lines = scripted.1.lock().unwrap().clone();
            assert_eq!(lines[0], "identify SERIAL=S 10000");
            let asked = ["make-partitions SERIAL=S 1048576:linux:DATA -:linux:REST".to_owned()];
            assert_eq!(lines[1..], asked[..usize::from(late.is_empty())]);
        }
        let launcher: Arc<dyn Launcher> = Arc::new(Scripted::new(|_| None));
        let absent = Absent::new(Sequence::new(Duration::ZERO, None, Vec::new()).sender());
        assert!(phase(&[disk()], &[disk()], &launcher, &absent).is_none(), "it is done already");
    }
}
