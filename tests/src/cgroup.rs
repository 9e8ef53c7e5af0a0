//! A cgroup for each host under test: so that hosts that run at the same time do not share `kelson/<service>`. And one
//! that makes processes unkillable.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, io};

use crate::deadline::{PATIENCE, until};
use crate::host::Host;
use crate::{paths, skip};

/// A cgroup of its own, removed with all below it when dropped. Its processes must have ended by then.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// A new one where this test is; `None` where there is no cgroup2 that can be written.
    pub fn new() -> Option<Cgroup> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = own()?;
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = own.join(format!("kelson-test-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Some(Cgroup { path }),
                // A test that was killed has left it, and the kernel has used its PID again.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(_) => return None,
            }
        }
    }

    /// A new one of this name at the top of cgroup2, beside all others.
    ///
    /// # Panics
    /// Where there is no cgroup2 that can be written.
    #[track_caller]
    pub fn at_the_top(name: &str) -> Cgroup {
        let top = mount().expect("these tests need cgroup2");
        let path = top.join(format!("kelson-test-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a cgroup2 that can be written");
        Cgroup { path }
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
        // This also ends frozen and stopped processes.
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

/// Where cgroup2 is mounted.
fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = fields.find(|fields| fields.get(2) == Some(&"cgroup2"))?;
    Some(PathBuf::from(found.get(1)?))
}

/// This test's own folder in cgroup2.
fn own() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount()?.join(path))
}

/// A process that was left in the cgroup of a service, where it holds up the next start. Killed when dropped.
#[derive(Debug)]
pub struct Stray(pub Child);

impl Stray {
    #[track_caller]
    pub fn of(host: &Host, name: &str) -> Stray {
        let program = paths::binary("kelson-test-program");
        let stray = Stray(Command::new(program).arg("hang").spawn().expect("it can be started"));
        let cgroup = host.cgroup_of(name);
        fs::create_dir_all(&cgroup).expect("a cgroup2 that can be written");
        fs::write(cgroup.join("cgroup.procs"), stray.0.id().to_string()).expect("it can be entered");
        stray
    }
}

impl Drop for Stray {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cgroup of the first version: processes frozen in it do not even die. Thawed when dropped; the processes in it must
/// have ended by then.
#[derive(Debug)]
pub struct Freezer {
    /// Where the hierarchy is mounted.
    top: PathBuf,
    folder: PathBuf,
}

impl Freezer {
    /// One a test. The hierarchy is mounted for the calling thread alone, and need not be mounted on this computer.
    /// `None` where the kernel has none, or does not let this test mount it; the test is reported as skipped then.
    pub fn new() -> Option<Freezer> {
        let top = std::env::temp_dir().join(format!("kelson-freezer-{}", std::process::id()));
        fs::create_dir(&top).expect("the temporary folder is writable");
        let Err(error) = mount_freezer(&top) else {
            let folder = top.join(format!("kelson-test-{}", std::process::id()));
            fs::create_dir(&folder).expect("the freezer is writable");
            return Some(Freezer { top, folder });
        };
        fs::remove_dir(&top).expect("it is ours");
        skip(&format!(
            "nothing can be made unkillable: no freezer of cgroup version 1 can be mounted: {error}"
        ));
        None
    }

    /// Returns once the process (a PID of the test's own namespace) is frozen.
    #[track_caller]
    pub fn freeze(&self, pid: i32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).expect("it can be entered");
        fs::write(self.folder.join("freezer.state"), "FROZEN").expect("it can be frozen");
        until("it to be frozen", PATIENCE, || {
            fs::read_to_string(self.folder.join("freezer.state")).ok()?.starts_with("FROZEN").then_some(())
        });
    }

    pub fn thaw(&self) {
        let _ = fs::write(self.folder.join("freezer.state"), "THAWED");
    }
}

/// Mounts the freezer of cgroup version 1 in a mount namespace of this thread's own.
fn mount_freezer(at: &Path) -> io::Result<()> {
    let done = |result: i32| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let at = CString::new(at.as_os_str().as_bytes())?;
    let (none, data) = (std::ptr::null(), std::ptr::null());
    // SAFETY: unshare(2) has no preconditions; all strings end in a zero and outlive the calls, which copy them.
    unsafe {
        done(libc::unshare(libc::CLONE_NEWNS))?;
        done(libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_SLAVE, data))?;
        done(libc::mount(c"none".as_ptr(), at.as_ptr(), c"cgroup".as_ptr(), 0, c"freezer".as_ptr().cast()))
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw();
        let gone = || fs::remove_dir(&self.folder).is_ok().then_some(());
        if std::thread::panicking() {
            gone();
        } else {
            until("the freezer to be empty", PATIENCE, gone);
        }
        if let Ok(top) = CString::new(self.top.as_os_str().as_bytes()) {
            // SAFETY: the string ends in a zero and outlives the call.
            unsafe { libc::umount2(top.as_ptr(), libc::MNT_DETACH) };
        }
        let _ = fs::remove_dir(&self.top);
    }
}
