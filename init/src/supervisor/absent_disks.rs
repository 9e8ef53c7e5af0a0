//! Disks that had not come when the boot went on: each gets its partitions, is opened, or is checked and mounted when it comes.
//!
//! A process waits for each of them, and looks at the disks of the machine after each message of the kernel about a
//! device. A host whose disks were all there has no such process.

use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_services::manager::Manager;
use kelson_services::state_store::{Kind, StateStore};
use kelson_spec::encryption::EncryptionSpec;
use kelson_spec::machine::MountSpec;
use kelson_spec::partitions::DiskPartitionsSpec;
use kelson_sys::boxed;
use tokio::task::{JoinHandle, JoinSet};

use crate::boot::absent::{Absent, open_name, partitions_name, task_name};
use crate::boot::devices::{MountFailure, carry_out};
use crate::boot::{TaskFailure, encryption, partitions};

/// How long one process waits before another takes its place.
const WAIT: Duration = Duration::from_secs(3600);
/// The pause after one that could not wait.
const AGAIN: Duration = Duration::from_secs(10);

/// Mounts the disks as they come, until it is ended.
#[derive(Default)]
pub(super) struct AbsentDisks(Option<JoinHandle<()>>);

impl AbsentDisks {
    /// To be called before file systems are unmounted.
    pub(super) async fn end(self) {
        if let Some(task) = self.0 {
            task.abort();
            let _ = task.await;
        }
    }
}

/// Mounts what is absent from now on.
pub(super) fn mount_as_they_come(
    absent: Absent,
    launcher: Arc<dyn Launcher>,
    manager: Manager,
    store: Option<StateStore>,
) -> AbsentDisks {
    let some = !absent.free().is_empty() || !absent.locked().is_empty() || !absent.unpartitioned().is_empty();
    let work = async move {
        mount_all(&absent, &launcher, |text| {
            manager.host_event(text);
            if let Some(store) = &store {
                store.write(Kind::Boot, "", &absent.report());
            }
        })
        .await;
    };
    AbsentDisks(some.then(|| kelson_sys::spawn(work)))
}

/// What comes later.
#[derive(Debug, Clone, PartialEq)]
enum Later {
    Partition(DiskPartitionsSpec),
    Open(EncryptionSpec),
    Mount(MountSpec),
}

impl Later {
    async fn carry_out(&self, launcher: &dyn Launcher) -> Result<String, MountFailure> {
        match self {
            Later::Partition(disk) => partitions::carry_out(launcher, disk, WAIT).await,
            Later::Open(disk) => encryption::open(launcher, disk, WAIT).await,
            Later::Mount(mount) => carry_out(launcher, mount, WAIT).await,
        }
    }
}

/// Returns once all are mounted or have failed; `report` is given a line for each.
async fn mount_all(absent: &Absent, launcher: &Arc<dyn Launcher>, report: impl Fn(&str)) {
    let (mut begun, mut running) = (Vec::new(), JoinSet::new());
    loop {
        let parts = absent.unpartitioned().into_iter().map(Later::Partition);
        let disks = parts.chain(absent.locked().into_iter().map(Later::Open));
        for later in disks.chain(absent.free().into_iter().map(Later::Mount)) {
            if !begun.contains(&later) {
                begun.push(later.clone());
                running.spawn(boxed(wait_for(Arc::clone(launcher), later)));
            }
        }
        match running.join_next().await {
            Some(Ok((later, result))) => {
                let name = match &later {
                    Later::Partition(disk) => {
                        absent.partitioned(disk, &result);
                        partitions_name(disk)
                    }
                    Later::Open(disk) => {
                        absent.opened(disk, &result);
                        open_name(disk)
                    }
                    Later::Mount(mount) => {
                        absent.came(mount, &result);
                        task_name(mount)
                    }
                };
                let said = result.unwrap_or_else(|failure| failure.message);
                report(&format!("{name}: {said}"));
            }
            Some(Err(_)) => {}
            None => return,
        }
    }
}

async fn wait_for(launcher: Arc<dyn Launcher>, later: Later) -> (Later, Result<String, TaskFailure>) {
    loop {
        match later.carry_out(&*launcher).await {
            Ok(done) => return (later, Ok(done)),
            Err(MountFailure::Mount(failure)) => return (later, Err(failure)),
            Err(MountFailure::NoDisk(_)) => tokio::time::sleep(AGAIN).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::watch;
    use tokio::time::Instant;

    use super::*;
    use crate::task::testing::Scripted;

    fn mount(source: &str, target: &str) -> MountSpec {
        MountSpec {
            source: source.to_owned(),
            target: target.into(),
            fs_type: "xfs".to_owned(),
            ..MountSpec::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_is_looked_for_again_until_it_comes_and_what_lies_within_follows() {
        let looks = Mutex::new(0);
        let launcher = Arc::new(Scripted::new(move |line: &str| {
            if line.starts_with("identify") {
                let mut looks = looks.lock().unwrap();
                *looks += 1;
                return Some(if *looks < 3 { "failed no disk" } else { "done xfs /dev/vdb" });
            }
            Some("done mounted")
        }));
        let absent = Absent::new(watch::Sender::default());
        absent.put(mount("LABEL=SRV", "/srv"));
        absent.put(mount("tmpfs", "/srv/tmp"));
        let (began, said) = (Instant::now(), Mutex::new(Vec::new()));
        let scripted: Arc<dyn Launcher> = launcher.clone();
        mount_all(&absent, &scripted, |text| said.lock().unwrap().push(text.to_owned())).await;
        assert_eq!(began.elapsed(), AGAIN * 2);
        assert_eq!(*said.lock().unwrap(), ["mount /srv: mounted", "mount /srv/tmp: mounted"]);
        let asked = launcher.1.lock().unwrap().clone();
        assert_eq!(
            asked[2..],
            ["identify LABEL=SRV 3600000", "mount /dev/vdb /srv xfs  0", "mount tmpfs /srv/tmp xfs  0",]
        );
        assert!(absent.report().absent.is_empty());
    }

    #[tokio::test]
    async fn a_disk_that_comes_late_gets_its_partitions() {
        let launcher = Arc::new(Scripted::new(|line: &str| {
            Some(if line.starts_with("identify") { "done - /dev/vdb" } else { "done new: DATA" })
        }));
        let absent = Absent::new(watch::Sender::default());
        absent.put_unpartitioned(&DiskPartitionsSpec {
            disk: "SERIAL=S".to_owned(),
            ..DiskPartitionsSpec::default()
        });
        let said = Mutex::new(Vec::new());
        let scripted: Arc<dyn Launcher> = launcher.clone();
        mount_all(&absent, &scripted, |text| said.lock().unwrap().push(text.to_owned())).await;
        assert_eq!(*said.lock().unwrap(), ["partitions SERIAL=S: new: DATA"]);
        assert_eq!(*launcher.1.lock().unwrap(), ["identify SERIAL=S 3600000", "make-partitions SERIAL=S"]);
        assert!(absent.report().unpartitioned.is_empty());
    }
}
