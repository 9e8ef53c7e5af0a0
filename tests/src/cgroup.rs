//! A cgroup for each host under test: so that hosts that run at the same time do not share `kelson/<service>`. And one
//! that makes processes unkillable.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::deadline::{PATIENCE, until};

/// A cgroup of its own, removed with all below it when dropped. Whoever is in it must have ended by then.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// A new one where this test is; `None` where there is no cgroup2 that can be written.
    pub fn new() -> Option<Cgroup> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("kelson-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = own()?.join(name);
        fs::create_dir(&path).ok()?;
        Some(Cgroup { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that a process writes `0` to in order to enter.
    pub fn door(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Whatever is left in a frozen or stopped state as well.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        if !std::thread::panicking() {
            until("the host's cgroup to be empty", Duration::from_secs(10), || {
                remove(&self.path).then_some(())
            });
        } else {
            remove(&self.path);
        }
    }
}

/// Folders from the leaves up; true once the top is gone.
fn remove(folder: &Path) -> bool {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    fs::remove_dir(folder).is_ok() || !folder.exists()
}

/// This test's own folder in cgroup2.
fn own() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .find(|f| f.get(2) == Some(&"cgroup2"))?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount[1]).join(path))
}

/// A cgroup of the first version: processes frozen in it do not even die. Thawed when dropped; who was in it must end.
#[derive(Debug)]
pub struct Freezer(PathBuf);

impl Freezer {
    /// One a test; `None` where there is no freezer of version 1, or it cannot be written.
    pub fn new() -> Option<Freezer> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/freezer/kelson-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Freezer(path))
    }

    /// Returns once the process (a PID of the test's own namespace) is frozen.
    #[track_caller]
    pub fn freeze(&self, pid: i32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("it can be entered");
        fs::write(self.0.join("freezer.state"), "FROZEN").expect("it can be frozen");
        until("it to be frozen", PATIENCE, || {
            fs::read_to_string(self.0.join("freezer.state")).ok()?.starts_with("FROZEN").then_some(())
        });
    }

    pub fn thaw(&self) {
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw();
        let gone = || fs::remove_dir(&self.0).is_ok().then_some(());
        if std::thread::panicking() {
            gone();
        } else {
            until("the freezer to be empty", PATIENCE, gone);
        }
    }
}
