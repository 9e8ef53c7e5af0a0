//! The mounts of the machine file, each by `kelson-task`, because the disk may be dead.
//!
//! After a power cut a file system is not clean. The first mount replays its journal; an ext4 that also has
//! errors is put right by `e2fsck -p` before it is mounted. A file system that it dares not put right by
//! itself is mounted read-only, and PID 1 reports that: it can be read, and nothing makes it worse.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::disk::{self, DiskName};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::machine::{Format, MountSpec};

use super::absent::{Absent, task_name};
use super::{Task, TaskFailure};
use kelson_helper::Launcher;

use crate::task::{self, Request, TaskError};

/// How long a disk may take to say what is on it.
pub const LOOK: Duration = Duration::from_secs(20);
/// How long a check may take: of a large disk with errors, minutes.
pub const CHECK: Duration = Duration::from_secs(600);
/// How long it may take to make a file system: of a large disk on a slow bus, minutes.
const FORMAT: Duration = Duration::from_secs(600);
/// How long it may take to change a table of partitions.
const CALL: Duration = Duration::from_secs(30);
/// How long a file system may take to grow: of a large disk on a slow bus, minutes.
const GROW: Duration = Duration::from_secs(600);
/// How long the mount itself may take: a journal is replayed.
pub const MOUNT: Duration = Duration::from_secs(90);

/// Why a mount was not made.
#[derive(Debug)]
pub enum MountFailure {
    /// Its disk has not come, or is not the only one of its name. It may come.
    NoDisk(TaskError),
    Mount(TaskFailure),
}

impl From<TaskError> for MountFailure {
    fn from(error: TaskError) -> MountFailure {
        MountFailure::Mount(error.into())
    }
}

/// A disk that has come.
pub struct Found {
    /// `None`: none that is known.
    pub fs_type: Option<String>,
    pub device: String,
}

/// Mounts a file system in the boot; one whose disk has not come is kept for later.
pub fn mount_task(launcher: Arc<dyn Launcher>, mount: MountSpec, absent: Absent) -> Task {
    let name = task_name(&mount);
    let steps =
        [LOOK, FORMAT, CHECK, MOUNT, CALL, GROW].into_iter().fold(mount.wait, Duration::saturating_add);
    let longest = steps.saturating_mul(2);
    let work = async move {
        if let Some(first) = absent.holds_up(&mount) {
            absent.put(mount);
            return Err(TaskFailure::from(format!("it waits for {first}")));
        }
        match carry_out(launcher.as_ref(), &mount, mount.wait).await {
            Ok(done) => Ok(done),
            Err(MountFailure::Mount(failure)) => Err(failure),
            Err(MountFailure::NoDisk(error)) if const { !OWN.has(Feature::Disks) } => Err(error.into()),
            Err(MountFailure::NoDisk(error)) => {
                absent.put(mount);
                Err(TaskFailure::from(format!("{error}; it is mounted when it comes")))
            }
        }
    };
    Task::new(name, work).within(longest)
}

/// Waits at most `wait` for the disk, checks and mounts it.
///
/// # Errors
/// When it has not come by then, or cannot be mounted.
pub async fn carry_out(
    launcher: &dyn Launcher,
    mount: &MountSpec,
    wait: Duration,
) -> Result<String, MountFailure> {
    let mut options = mount.options.join(",");
    if mount.target == Path::new("/") {
        // The root is there already; its options are what can be changed.
        let request = Request::Remount { target: mount.target.clone(), options };
        return Ok(task::run(launcher, &request, MOUNT).await?);
    }
    let found = if is_disk(mount) { Some(find(launcher, &mount.source, wait).await?) } else { None };
    let (mut said, mut unsound) = (String::new(), None);
    if let Some(found) = &found {
        said = format_if_blank(launcher, mount, found).await?;
    }
    let growing = found
        .as_ref()
        .filter(|_| const { OWN.has(Feature::Disks) } && mount.grow)
        .map(|found| PathBuf::from(&found.device));
    // One that does not grow is mounted as it is.
    let mut grown = Ok(String::new());
    if let Some(device) = growing.clone() {
        grown = task::run(launcher, &Request::GrowPartition { device }, CALL).await;
    }
    if let Some(found) = found.as_ref().filter(|found| is_checked(mount, found)) {
        let device = PathBuf::from(&found.device);
        match task::run(launcher, &Request::Check { device }, CHECK).await {
            Ok(text) => said = text,
            Err(error) => {
                unsound = Some(error);
                options.push_str(",ro");
            }
        }
    }
    let request = Request::Mount {
        source: found.map_or_else(|| mount.source.clone(), |found| found.device),
        target: mount.target.clone(),
        fs_type: mount.fs_type.clone(),
        options,
        patience: Duration::ZERO,
    };
    let mut done = task::run(launcher, &request, MOUNT).await?;
    if let Some(device) = growing.filter(|_| unsound.is_none()) {
        let (target, fs_type) = (mount.target.clone(), mount.fs_type.clone());
        let request = Request::GrowFileSystem { device, target, fs_type };
        let further = task::run(launcher, &request, GROW).await;
        match grown.and_then(|partition| Ok([partition, further?])) {
            Ok(texts) => {
                done = texts
                    .iter()
                    .filter(|text| !text.is_empty())
                    .fold(done, |done, text| format!("{done}; {text}"));
            }
            Err(error) => {
                let text = format!("{done}, and it has not grown: {error}");
                return Err(MountFailure::Mount(TaskFailure::from(text)));
            }
        }
    }
    match unsound {
        Some(error) => {
            let text = format!("{done}, read-only, as it is not sound: {error}");
            Err(MountFailure::Mount(TaskFailure::from(text)))
        }
        None if said.is_empty() => Ok(done),
        None => Ok(format!("{done}; {said}")),
    }
}

/// Gives a disk on which nothing is known its file system, if the file asks for it. Returns what was done.
async fn format_if_blank(
    launcher: &dyn Launcher,
    mount: &MountSpec,
    found: &Found,
) -> Result<String, MountFailure> {
    let (source, fs_type) = (mount.source.clone(), mount.fs_type.clone());
    match &found.fs_type {
        _ if const { !OWN.has(Feature::Disks) } || mount.format == Format::Never => Ok(String::new()),
        None => Ok(task::run(launcher, &Request::Format { source, fs_type }, FORMAT).await?),
        Some(other) if *other != fs_type => {
            let text =
                format!("{}: a {other} is on it, and not a {fs_type}; it is not formatted", found.device);
            Err(MountFailure::Mount(TaskFailure::from(text)))
        }
        Some(_) => Ok(String::new()),
    }
}

/// The words of all options.
fn words(mount: &MountSpec) -> impl DoubleEndedIterator<Item = &str> {
    mount.options.iter().flat_map(|option| option.split(',')).map(str::trim)
}

fn is_disk(mount: &MountSpec) -> bool {
    DiskName::parse(&mount.source).is_some() && !words(mount).any(|word| matches!(word, "bind" | "rbind"))
}

fn is_checked(mount: &MountSpec, found: &Found) -> bool {
    disk::is_checked(&mount.fs_type, words(mount), found.fs_type.as_deref())
        && const { OWN.has(Feature::Disks) }
}

/// Waits at most `wait` for a disk, and looks what is on it.
///
/// # Errors
/// When it has not come by then, or does not answer.
pub async fn find(launcher: &dyn Launcher, source: &str, wait: Duration) -> Result<Found, MountFailure> {
    let request = Request::Identify { source: source.to_owned(), patience: wait };
    let answer = match task::run(launcher, &request, wait.saturating_add(LOOK)).await {
        Err(error @ TaskError::Failed(_)) => return Err(MountFailure::NoDisk(error)),
        answer => answer?,
    };
    let (fs_type, device) = answer.split_once(' ').unwrap_or(("-", &answer));
    let fs_type = (fs_type != "-").then(|| fs_type.to_owned());
    Ok(Found { fs_type, device: device.to_owned() })
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// An ext4.
    pub fn mount(source: &str, target: &str) -> MountSpec {
        MountSpec {
            source: source.to_owned(),
            target: target.into(),
            fs_type: "ext4".to_owned(),
            ..MountSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::mount;
    use super::*;
    use crate::task::testing::Scripted;

    const WAIT: Duration = Duration::from_secs(10);

    const IDENTIFY: &str = "identify LABEL=STATE 10000";

    #[tokio::test]
    async fn a_disk_is_checked_before_it_is_mounted() {
        let launcher = Scripted::new(|line| match line {
            IDENTIFY => Some("done ext4 /dev/vdb\n"),
            "fsck /dev/vdb" => Some("done clean\n"),
            _ => Some("done /dev/vdb on /var\n"),
        });
        let said = carry_out(&launcher, &mount("LABEL=STATE", "/var"), WAIT).await.unwrap();
        assert_eq!(said, "/dev/vdb on /var; clean");
        let asked = launcher.1.lock().unwrap().clone();
        assert_eq!(asked, [IDENTIFY, "fsck /dev/vdb", "mount /dev/vdb /var ext4  0"]);
    }

    #[tokio::test]
    async fn a_partition_grows_before_and_its_file_system_after_the_mount() {
        let asked = async |partition: &'static str, further: &'static str| {
            let launcher = Scripted::new(move |line: &str| match line.split(' ').next() {
                Some("identify") => Some("done xfs /dev/vdb1"),
                Some("grow-partition") => Some(partition),
                Some("grow-fs") => Some(further),
                _ => Some("done mounted"),
            });
            let growing = MountSpec { fs_type: "xfs".to_owned(), grow: true, ..mount("LABEL=STATE", "/var") };
            let result = carry_out(&launcher, &growing, WAIT).await.map_err(|failure| match failure {
                MountFailure::Mount(failure) => failure.message,
                MountFailure::NoDisk(error) => panic!("{error}"),
            });
            assert_eq!(
                launcher.1.into_inner().unwrap()[1..],
                ["grow-partition /dev/vdb1", "mount /dev/vdb1 /var xfs  0", "grow-fs /dev/vdb1 /var xfs"]
            );
            result
        };
        assert_eq!(asked("done", "done").await.unwrap(), "mounted");
        assert_eq!(asked("done a", "done b").await.unwrap(), "mounted; a; b");
        assert_eq!(asked("failed a", "done b").await.unwrap_err(), "mounted, and it has not grown: a");
        assert_eq!(asked("done a", "failed b").await.unwrap_err(), "mounted, and it has not grown: b");
    }

    #[tokio::test]
    async fn a_disk_that_cannot_be_put_right_is_mounted_read_only() {
        let launcher = Scripted::new(|line| match line {
            IDENTIFY => Some("done ext4 /dev/vdb\n"),
            "fsck /dev/vdb" => Some("failed UNEXPECTED INCONSISTENCY\n"),
            _ => Some("done /dev/vdb on /var\n"),
        });
        let error = carry_out(&launcher, &mount("LABEL=STATE", "/var"), WAIT).await.unwrap_err();
        let MountFailure::Mount(error) = error else { panic!("{error:?}") };
        assert!(!error.fatal);
        assert_eq!(
            error.message,
            "/dev/vdb on /var, read-only, as it is not sound: UNEXPECTED INCONSISTENCY"
        );
        assert_eq!(launcher.1.lock().unwrap().last().unwrap(), "mount /dev/vdb /var ext4 ,ro 0");
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_does_not_answer_costs_its_look_alone() {
        let launcher = Scripted::new(|_| None);
        let begun = tokio::time::Instant::now();
        let error = carry_out(&launcher, &mount("LABEL=STATE", "/var"), WAIT).await.unwrap_err();
        assert!(
            matches!(&error, MountFailure::Mount(error) if error.message.contains("identify did not answer")),
            "{error:?}"
        );
        assert_eq!(begun.elapsed(), WAIT + LOOK);
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
            carry_out(&launcher, &mount, WAIT).await.unwrap();
        }
        let asked = launcher.1.lock().unwrap().clone();
        assert!(!asked.iter().any(|line| line.starts_with("fsck")), "{asked:?}");
        assert_eq!(asked.iter().filter(|line| line.starts_with("identify")).count(), 2);
    }

    #[tokio::test]
    async fn only_a_disk_on_which_nothing_is_known_is_formatted() {
        let asked = async |found: &'static str, format| {
            let launcher = Scripted::new(move |line: &str| match line {
                _ if line.starts_with("identify") => Some(found),
                _ if line.starts_with("format") => Some("done a new xfs"),
                _ => Some("done mounted"),
            });
            let disk = MountSpec { fs_type: "xfs".to_owned(), format, ..mount("SERIAL=1", "/srv") };
            let result = carry_out(&launcher, &disk, WAIT).await.map_err(|error| format!("{error:?}"));
            let asked = launcher.1.lock().unwrap().clone();
            (result, asked.into_iter().skip(1).collect::<Vec<_>>())
        };
        let mounted = "mount /dev/vdb /srv xfs  0".to_owned();
        let (result, lines) = asked("done - /dev/vdb", Format::IfBlank).await;
        assert_eq!(
            (result, lines),
            (Ok("mounted; a new xfs".into()), vec!["format SERIAL=1 xfs".into(), mounted.clone()])
        );
        let (result, lines) = asked("done xfs /dev/vdb", Format::IfBlank).await;
        assert_eq!((result, lines), (Ok("mounted".into()), vec![mounted.clone()]));
        let (result, lines) = asked("done - /dev/vdb", Format::Never).await;
        assert_eq!((result, lines), (Ok("mounted".into()), vec![mounted]));
        let (result, lines) = asked("done ext4 /dev/vdb", Format::IfBlank).await;
        assert!(result.unwrap_err().contains("/dev/vdb: a ext4 is on it, and not a xfs") && lines.is_empty());
    }
}
