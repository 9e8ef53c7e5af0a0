//! A disk that is a file: an ext4 on a loop device of this machine.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// See the module. Detached when dropped.
#[derive(Debug)]
pub struct LoopDisk {
    folder: TempDir,
    device: PathBuf,
}

impl LoopDisk {
    const SIZE: u64 = 8 << 20;

    /// An empty file system of this label, on a disk of `size` bytes.
    #[track_caller]
    pub fn of_size(label: &str, size: u64) -> LoopDisk {
        LoopDisk::changed(label, size, |_| {})
    }

    /// An empty file system of this label.
    #[track_caller]
    pub fn new(label: &str) -> LoopDisk {
        LoopDisk::of_size(label, Self::SIZE)
    }

    /// One that has lost its end.
    #[track_caller]
    pub fn torn(label: &str) -> LoopDisk {
        LoopDisk::changed(label, Self::SIZE, |file| {
            OpenOptions::new()
                .write(true)
                .open(file)
                .and_then(|file| file.set_len(Self::SIZE / 2))
                .expect("it shrinks");
        })
    }

    /// One that was not unmounted.
    #[track_caller]
    pub fn unclean(label: &str) -> LoopDisk {
        LoopDisk::changed(label, Self::SIZE, |file| {
            run("/sbin/debugfs", &["-w", "-R", "set_super_value state 0", text(file)]);
        })
    }

    #[track_caller]
    fn changed(label: &str, size: u64, change: impl FnOnce(&Path)) -> LoopDisk {
        let folder = tempfile::tempdir().expect("a writable folder");
        let file = folder.path().join("disk");
        File::create(&file).and_then(|file| file.set_len(size)).expect("a file");
        run("/sbin/mke2fs", &["-q", "-t", "ext4", "-L", label, text(&file)]);
        change(&file);
        let device = run("/sbin/losetup", &["--find", "--show", text(&file)]).trim_end().into();
        LoopDisk { folder, device }
    }

    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Whether nobody has it mounted.
    #[track_caller]
    pub fn is_free(&self) -> bool {
        match OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&self.device) {
            Ok(_) => true,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => false,
            Err(error) => panic!("{}: {error}", self.device.display()),
        }
    }

    /// Whether it was unmounted, or checked.
    #[track_caller]
    pub fn is_clean(&self) -> bool {
        let file = self.folder.path().join("disk");
        run("/sbin/dumpe2fs", &["-h", text(&file)])
            .lines()
            .any(|line| line.starts_with("Filesystem state:") && line.ends_with(" clean"))
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Where it is still mounted, the kernel detaches it with its last mount.
        let _ = Command::new("/sbin/losetup").arg("--detach").arg(&self.device).status();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

#[track_caller]
fn run(program: &str, words: &[&str]) -> String {
    let ended =
        Command::new(program).args(words).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(ended.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8_lossy(&ended.stdout).into_owned()
}
