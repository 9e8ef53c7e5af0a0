//! One cgroup a service: what holds all of its processes, however often they fork, and ends them all at once.
//!
//! [`CgroupRoot`] is found once (its story is in [`root`]); a [`Cgroup`] names one folder below it and does all that
//! can be done with it. A running service keeps neither a descriptor nor a path: files are opened below the root when
//! they are needed. Only memory file systems are touched, so PID 1 may do all of this itself.

mod delegation;
mod memory;
mod pids;
mod resources;
mod root;
mod shims;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kelson_sys::descriptor::Watched;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use tokio::io::Interest;
use tokio::time::timeout;

pub use resources::{Usage, without_cgroups};
pub use root::{CgroupRoot, own_folder};

use crate::runner::{KILL_DEADLINE, RunnerError};

/// How many processes of one cgroup are looked at.
const MOST: usize = 10_000;

/// One cgroup below the root, by its name; it need not be there.
#[derive(Debug)]
pub struct Cgroup {
    root: CgroupRoot,
    name: String,
}

/// The contents of `cgroup.events`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Events {
    populated: bool,
    frozen: bool,
}

impl Events {
    fn parse(text: &str) -> Events {
        Events {
            populated: text.lines().any(|line| line == "populated 1"),
            frozen: text.lines().any(|line| line == "frozen 1"),
        }
    }
}

impl CgroupRoot {
    /// The cgroup of this name below it; it need not be there.
    pub fn cgroup(&self, name: &str) -> Cgroup {
        Cgroup { root: self.clone(), name: name.to_owned() }
    }
}

impl Cgroup {
    /// Makes it below `root`, or takes the one that is there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn create(root: &CgroupRoot, name: &str) -> Result<Cgroup, RunnerError> {
        let cgroup = root.cgroup(name);
        cgroup.make()?;
        Ok(cgroup)
    }

    /// Makes it. Returns whether it was not there before.
    pub(crate) fn make(&self) -> Result<bool, RunnerError> {
        let name = self.name.as_str();
        match nix::sys::stat::mkdirat(self.root.folder(), name, Mode::from_bits_truncate(0o755)) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(false),
            Err(errno) => Err(self.cannot("make", &errno.into())),
        }
    }

    /// Its folder, for `clone3`.
    ///
    /// # Errors
    /// When it is not there or cannot be opened.
    pub fn folder(&self) -> Result<Arc<OwnedFd>, RunnerError> {
        // Enough for `clone3`, and to open what is below.
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = openat(self.root.folder(), self.name.as_str(), flags, Mode::empty());
        opened.map(Arc::new).map_err(|errno| self.cannot("open", &errno.into()))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> PathBuf {
        self.root.path().join(&self.name)
    }

    fn cannot(&self, what: &str, error: &io::Error) -> RunnerError {
        RunnerError::system(format_args!("cannot {what} cgroup {}", self.name), error)
    }

    fn file(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let path = [self.name.as_str(), name].join("/");
        let fd = openat(self.root.folder(), path.as_str(), flags | OFlag::O_CLOEXEC, Mode::empty())?;
        Ok(File::from(fd))
    }

    fn write(&self, name: &str, value: &str) -> io::Result<()> {
        self.file(name, OFlag::O_WRONLY)?.write_all(value.as_bytes())
    }

    /// The beginning of a file, which is all of a short one.
    fn read_short(&self, name: &str) -> io::Result<String> {
        read_from_start(&self.file(name, OFlag::O_RDONLY)?)
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        self.file(name, OFlag::O_RDONLY)?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn events(&self) -> io::Result<Events> {
        Ok(Events::parse(&self.read_short("cgroup.events")?))
    }

    /// Whether it, or a cgroup below it, holds a process that has not ended. One that was removed holds none; one that
    /// cannot be asked (no descriptor is free) may.
    pub fn is_populated(&self) -> bool {
        match self.events() {
            Ok(events) => events.populated,
            Err(error) => !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)),
        }
    }

    pub fn is_frozen(&self) -> bool {
        self.events().is_ok_and(|events| events.frozen)
            || self.read_short("cgroup.freeze").is_ok_and(|t| t.trim() == "1")
    }

    /// # Errors
    /// When the kernel refuses.
    pub fn freeze(&self) -> Result<(), RunnerError> {
        self.write("cgroup.freeze", "1").map_err(|error| self.cannot("freeze", &error))
    }

    /// Thaws it, and what is frozen below it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn thaw(&self) -> Result<(), RunnerError> {
        for below in self.below() {
            // One that is gone meanwhile needs no thaw.
            let _ = fs::write(below.join("cgroup.freeze"), "0");
        }
        self.write("cgroup.freeze", "0").map_err(|error| self.cannot("thaw", &error))
    }

    /// Sends SIGKILL to every process in it and below it, also to frozen ones and those that fork meanwhile.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&self) -> Result<(), RunnerError> {
        match self.write("cgroup.kill", "1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.path().exists() => {
                // Before Linux 5.14. Frozen, nothing can fork meanwhile.
                let _ = self.freeze();
                for pid in self.processes(usize::MAX) {
                    // SAFETY: numbers only; the cgroup names them as its own now.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                }
                self.thaw()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|error| self.cannot("kill", &error)),
        }
    }

    /// Sends a signal to every process in it and below it but this one. One that is made meanwhile may be missed.
    pub(crate) fn signal_others(&self, main: i32, signal: i32) {
        for pid in self.processes(MOST).into_iter().filter(|pid| *pid != main) {
            // SAFETY: numbers only; the cgroup names them as its own now.
            unsafe { libc::kill(pid, signal) };
        }
    }

    /// Kills all that is in it, and waits for their end for as long as there is any: returns once none of them has
    /// ended for `timeout`, with how many are left. A thousand processes take their time to end. Cancelled by dropping.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub async fn end(&self, timeout: Duration) -> Result<u32, RunnerError> {
        self.kill()?;
        let mut before = self.processes(MOST).len();
        while !self.unpopulated(timeout).await? {
            let left = self.processes(MOST).len();
            if left >= before {
                return Ok(u32::try_from(left).unwrap_or(u32::MAX).max(1));
            }
            before = left;
        }
        Ok(0)
    }

    /// Ends all that is in it. Returns how many processes outlived that. One read where it is empty.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) async fn clear(&self) -> Result<u32, RunnerError> {
        if self.is_populated() { self.end(KILL_DEADLINE).await } else { Ok(0) }
    }

    /// Returns once it holds no process any more, or after `within`, with whether that is so. Cancelled by dropping.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub async fn unpopulated(&self, within: Duration) -> Result<bool, RunnerError> {
        match timeout(within, self.watch()).await {
            Ok(result) => result.map(|()| true).map_err(|error| self.cannot("watch", &error)),
            Err(_) => Ok(!self.is_populated()),
        }
    }

    /// Returns once it holds no process any more. Cancelled by dropping.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub(crate) async fn emptied(&self) -> Result<(), RunnerError> {
        self.watch().await.map_err(|error| self.cannot("watch", &error))
    }

    async fn watch(&self) -> io::Result<()> {
        let file = match self.file("cgroup.events", OFlag::O_RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let watched = Watched::new(file, Interest::PRIORITY)?;
        loop {
            // The read is what re-arms the next notice, so it comes before each wait.
            match read_from_start(watched.get_ref()) {
                Ok(text) if Events::parse(&text).populated => {}
                // Empty, or removed.
                Ok(_) | Err(_) => return Ok(()),
            }
            watched.changed().await?;
        }
    }

    /// PIDs in it and below it, at most `limit`.
    pub fn processes(&self, limit: usize) -> Vec<i32> {
        members(&self.path(), "cgroup.procs", limit)
    }

    /// Cgroups that the service made below its own, the deepest first.
    fn below(&self) -> Vec<PathBuf> {
        below(&self.path())
    }

    fn remove_folder(&self) -> nix::Result<()> {
        unlinkat(self.root.folder(), self.name.as_str(), UnlinkatFlags::RemoveDir)
    }

    /// Removes it if it holds no process and no cgroup. Returns whether it is gone.
    pub(crate) fn remove_empty(&self) -> bool {
        matches!(self.remove_folder(), Ok(()) | Err(Errno::ENOENT))
    }

    /// Removes it and what the service made below it. All of it must be unpopulated.
    ///
    /// # Errors
    /// When it still holds a process.
    pub fn remove(&self) -> Result<(), RunnerError> {
        match self.remove_folder() {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            // Only then look for cgroups below: there are none as a rule.
            Err(_) => {
                for folder in self.below() {
                    let _ = fs::remove_dir(folder);
                }
                self.remove_folder().map_err(|errno| self.cannot("remove", &errno.into()))
            }
        }
    }
}

/// The threads in the cgroup at `folder` and below it.
pub fn threads(folder: &Path) -> Vec<i32> {
    members(folder, "cgroup.threads", usize::MAX)
}

/// Returns the numbers that files of this name list in the cgroup at `folder` and below it, at most `limit`.
fn members(folder: &Path, file: &str, limit: usize) -> Vec<i32> {
    let mut ids = Vec::new();
    for folder in below(folder).into_iter().chain([folder.to_owned()]) {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        // 0 is a process of another PID namespace: not ours to name.
        let found = text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|id| *id > 0);
        ids.extend(found.take(limit.saturating_sub(ids.len())));
    }
    ids
}

/// Folders below `path`, the deepest first.
fn below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    list_below(path, &mut found);
    found.reverse();
    found
}

/// Folders below `path`, each before those below it. Bounded, as a service can make many.
fn list_below(path: &Path, found: &mut Vec<PathBuf>) {
    const MOST: usize = 4096;
    let start = found.len();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if found.len() < MOST && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        }
    }
    let direct: Vec<PathBuf> = found.iter().skip(start).cloned().collect();
    for folder in direct {
        list_below(&folder, found);
    }
}

fn read_from_start(file: &File) -> io::Result<String> {
    use std::os::unix::fs::FileExt;
    let mut bytes = [0u8; 256];
    let count = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).into_owned())
}
