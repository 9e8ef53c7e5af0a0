//! One cgroup a service: what holds all of its processes, however often they fork, and ends them all at once.
//!
//! [`CgroupRoot`] is found once (its story is in [`root`]); a [`Cgroup`] is one folder below it. Making one costs one
//! `mkdir` and one `open`; it is kept over restarts. Only memory file systems are touched, so PID 1 may do all of this
//! itself.

mod resources;
mod root;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

pub use resources::Usage;
pub use root::CgroupRoot;

use crate::runner::RunnerError;

/// One cgroup below the root.
#[derive(Debug)]
pub struct Cgroup {
    root: CgroupRoot,
    name: String,
    folder: Arc<OwnedFd>,
    spent: AtomicBool,
}

/// What `cgroup.events` says.
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

impl Cgroup {
    /// Makes it below `root`, or takes the one that is there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn create(root: &CgroupRoot, name: &str) -> Result<Cgroup, RunnerError> {
        let cannot =
            |error: &io::Error| RunnerError::system(format_args!("cannot make cgroup {name}"), error);
        let spent = match nix::sys::stat::mkdirat(root.folder(), name, Mode::from_bits_truncate(0o755)) {
            Ok(()) => false,
            Err(nix::errno::Errno::EEXIST) => true,
            Err(errno) => return Err(cannot(&errno.into())),
        };
        let cgroup =
            Cgroup::open(root, name)?.ok_or_else(|| cannot(&io::Error::from_raw_os_error(libc::ENOENT)))?;
        cgroup.spent.store(spent, Ordering::Relaxed);
        Ok(cgroup)
    }

    /// The one that is there, for instance from an earlier life of PID 1.
    ///
    /// # Errors
    /// When it is there and cannot be opened.
    pub fn open(root: &CgroupRoot, name: &str) -> Result<Option<Cgroup>, RunnerError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        match openat(root.folder(), name, flags, Mode::empty()) {
            Ok(folder) => Ok(Some(Cgroup {
                root: root.clone(),
                name: name.to_owned(),
                folder: Arc::new(folder),
                spent: AtomicBool::new(true),
            })),
            Err(nix::errno::Errno::ENOENT) => Ok(None),
            Err(errno) => {
                Err(RunnerError::system(format_args!("cannot open cgroup {name}"), &io::Error::from(errno)))
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has been killed, or may have been, by an earlier life of PID 1. It takes no new process then: Linux
    /// (seen on 6.18) holds its count of kills against that of the cgroup of whoever clones, and kills a child that is
    /// cloned straight into it at birth.
    pub fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// For `clone3`.
    pub fn folder(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.folder)
    }

    pub fn path(&self) -> PathBuf {
        self.root.path().join(&self.name)
    }

    fn cannot(&self, what: &str, error: &io::Error) -> RunnerError {
        RunnerError::system(format_args!("cannot {what} cgroup {}", self.name), error)
    }

    fn file(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let fd = openat(self.folder.as_fd(), name, flags | OFlag::O_CLOEXEC, Mode::empty())?;
        Ok(File::from(fd))
    }

    fn write(&self, name: &str, value: &str) -> io::Result<()> {
        self.file(name, OFlag::O_WRONLY)?.write_all(value.as_bytes())
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        self.file(name, OFlag::O_RDONLY)?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn events(&self) -> io::Result<Events> {
        Ok(Events::parse(&self.read("cgroup.events")?))
    }

    /// Whether it, or a cgroup below it, holds a process that has not ended. One that cannot be asked holds none: it
    /// was removed.
    pub fn is_populated(&self) -> bool {
        self.events().is_ok_and(|events| events.populated)
    }

    pub fn is_frozen(&self) -> bool {
        self.events().is_ok_and(|events| events.frozen)
            || self.read("cgroup.freeze").is_ok_and(|t| t.trim() == "1")
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
        self.spent.store(true, Ordering::Relaxed);
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

    async fn watch(&self) -> io::Result<()> {
        let file = match self.file("cgroup.events", OFlag::O_RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        // SAFETY: a File is always the same descriptor, open until it is dropped, here after its registration.
        let watched = unsafe { AsyncFd::register_with_interest(file, Interest::PRIORITY) }
            .map_err(|error| error.into_parts().1)?;
        loop {
            // The read is what re-arms the next notice, so it comes before each wait.
            match read_from_start(watched.get_ref()) {
                Ok(text) if Events::parse(&text).populated => {}
                // Empty, or removed.
                Ok(_) | Err(_) => return Ok(()),
            }
            watched.ready(Interest::PRIORITY).await?.clear_ready();
        }
    }

    /// PIDs in it and below it, at most `limit`.
    pub fn processes(&self, limit: usize) -> Vec<i32> {
        let mut pids = Vec::new();
        for folder in self.below().into_iter().chain([self.path()]) {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            // 0 is a process of another PID namespace: not ours to name.
            let found = text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0);
            pids.extend(found.take(limit.saturating_sub(pids.len())));
        }
        pids
    }

    /// Cgroups that the service made below its own, the deepest first.
    fn below(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        list_below(&self.path(), &mut found);
        found.reverse();
        found
    }

    /// Removes it and what the service made below it. All of it must be unpopulated.
    ///
    /// # Errors
    /// When it still holds a process.
    pub fn remove(&self) -> Result<(), RunnerError> {
        match fs::remove_dir(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // Only then look for cgroups below: there are none as a rule.
            Err(_) => {
                for folder in self.below() {
                    let _ = fs::remove_dir(folder);
                }
                fs::remove_dir(self.path()).map_err(|error| self.cannot("remove", &error))
            }
            Ok(()) => Ok(()),
        }
    }
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
