//! A disk that stops answering: QEMU has it from another process, which can be stopped, and go on, or die.
//!
//! To the machine it is a disk like any other. Stopped, it takes requests and answers none, as a dead disk or a dead
//! path to a storage network does; each write that is under way waits for ever. Killed, each request fails.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::deadline::{PATIENCE, until};
use crate::drive::Drive;

/// See the module. Ended when dropped.
#[derive(Debug)]
pub struct HangingDisk {
    drive: Drive,
    socket: PathBuf,
    server: Child,
}

impl HangingDisk {
    /// An empty ext4 file system of this label.
    #[track_caller]
    pub fn new(name: &str, label: &str) -> HangingDisk {
        HangingDisk::over(name, Drive::new(name, label))
    }

    /// Room for swap, and nothing else.
    #[track_caller]
    pub fn swap(name: &str) -> HangingDisk {
        HangingDisk::over(name, Drive::swap(name))
    }

    #[track_caller]
    fn over(name: &str, drive: Drive) -> HangingDisk {
        // The path of a socket must be short.
        let socket = std::env::temp_dir().join(format!("kelson-nbd-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let server = Command::new("qemu-storage-daemon")
            .arg("--blockdev")
            .arg(format!("driver=file,node-name=disk,filename={},cache.no-flush=on", drive.file().display()))
            .arg("--nbd-server")
            .arg(format!("addr.type=unix,addr.path={}", socket.display()))
            .args(["--export", "type=nbd,id=disk,node-name=disk,name=disk,writable=on"])
            .stdin(Stdio::null())
            .spawn()
            .expect("qemu-storage-daemon comes with QEMU");
        let disk = HangingDisk { drive, socket, server };
        until("the disk's socket", PATIENCE, || disk.socket.exists().then_some(()));
        disk
    }

    /// For [`crate::VmBuilder::second_disk`].
    pub fn source(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    pub fn file(&self) -> &Path {
        self.drive.file()
    }

    /// From now on it answers nothing.
    pub fn hang(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// It answers again, also what it was asked meanwhile.
    pub fn answer(&self) {
        self.signal(libc::SIGCONT);
    }

    /// From now on each request fails.
    pub fn die(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.server.id()).expect("a PID");
        // SAFETY: kill(2) has no preconditions; the child is not reaped yet.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "signal {signal} to the disk");
    }
}

impl Drop for HangingDisk {
    fn drop(&mut self) {
        self.die();
        let _ = std::fs::remove_file(&self.socket);
    }
}
