//! The root file system: checked if it needs it, then made writable.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::task::RESTART_NEEDED;
use kelson_sys::mountinfo::{self, Mount};

use super::{Order, Phase, Task, TaskFailure};
use kelson_helper::Launcher;

use crate::task::{self, Request};

/// A check of a large disk after a power cut takes minutes.
const CHECK: Duration = Duration::from_secs(600);
const REMOUNT: Duration = Duration::from_secs(30);

pub fn phase(launcher: Arc<dyn Launcher>) -> Phase {
    let work = async move {
        let mounts = mountinfo::read()?;
        make_writable(launcher.as_ref(), mountinfo::topmost(&mounts, Path::new("/"))).await
    };
    Phase::new("root", Order::InTurn)
        .task(Task::new("root file system", work).within(CHECK.saturating_add(REMOUNT)))
}

async fn make_writable(launcher: &dyn Launcher, root: Option<&Mount>) -> Result<String, TaskFailure> {
    let root = root.ok_or("no mount is seen at /")?;
    let read_only = !root.writable() || root.options.iter().any(|word| word == "ro");
    if !read_only {
        return Ok(format!("{} is writable already", root.source));
    }
    if matches!(root.fs_type.as_str(), "squashfs" | "erofs" | "iso9660" | "cramfs") {
        return Ok(format!("{} is never writable", root.fs_type));
    }
    let mut said = String::new();
    if root.fs_type == "ext4" && root.source.starts_with("/dev/") {
        let device = device_of(root);
        match task::run(launcher, &Request::Check { device }, CHECK).await {
            Ok(text) => said = text,
            Err(error) => {
                let message = error.to_string();
                let fatal = message.contains(RESTART_NEEDED);
                return Err(TaskFailure { message: format!("it stays read-only: {message}"), fatal });
            }
        }
    }
    let request = Request::Remount { target: "/".into(), options: "rw".to_owned() };
    task::run(launcher, &request, REMOUNT).await?;
    Ok(if said.is_empty() { "writable".to_owned() } else { format!("writable; {said}") })
}

/// `/dev/root` is what the kernel calls a root that it mounted itself; its number names the device.
fn device_of(root: &Mount) -> std::path::PathBuf {
    let source = Path::new(&root.source);
    if source.exists() {
        return source.to_owned();
    }
    let link =
        std::fs::read_link(Path::new("/sys/dev/block").join(root.device.to_string())).unwrap_or_default();
    link.file_name().map_or_else(|| source.to_owned(), |name| Path::new("/dev").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::Scripted;

    fn root(line: &str) -> Mount {
        mountinfo::parse(line.as_bytes()).remove(0)
    }

    #[tokio::test]
    async fn a_clean_root_becomes_writable_after_its_check() {
        let launcher = Scripted::new(|_| Some("done clean\n"));
        let mount = root("1 0 254:1 / / ro - ext4 /dev/null ro\n");
        assert_eq!(make_writable(&launcher, Some(&mount)).await.unwrap(), "writable; clean");
        assert_eq!(*launcher.1.lock().unwrap(), ["fsck /dev/null", "remount / rw"]);
    }

    #[tokio::test]
    async fn a_broken_root_stays_read_only_and_one_that_needs_a_restart_ends_the_boot() {
        let mount = root("1 0 254:1 / / ro - ext4 /dev/null ro\n");
        let broken = Scripted::new(|_| Some("failed UNEXPECTED INCONSISTENCY\n"));
        let error = make_writable(&broken, Some(&mount)).await.unwrap_err();
        assert!(!error.fatal && error.message.starts_with("it stays read-only"), "{error:?}");
        assert_eq!(broken.1.lock().unwrap().len(), 1);
        let restart =
            Scripted::new(|_| Some("failed the machine must start again before the disk is written\n"));
        assert!(make_writable(&restart, Some(&mount)).await.unwrap_err().fatal);
    }

    #[tokio::test]
    async fn a_root_that_is_writable_or_never_will_be_is_left_alone() {
        let launcher = Scripted::new(|_| None);
        for line in ["1 0 0:1 / / rw - overlay overlay rw\n", "1 0 7:0 / / ro - squashfs /dev/loop0 ro\n"] {
            make_writable(&launcher, Some(&root(line))).await.unwrap();
        }
        assert!(launcher.1.lock().unwrap().is_empty());
    }
}
