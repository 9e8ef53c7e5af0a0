//! A folder of this process's own for the files that a target is fed by, in memory where there is a file system for that.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Gone when it is dropped.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Place {
        let memory = Path::new("/dev/shm");
        let above = match std::env::var_os("TMPDIR") {
            None if memory.is_dir() => memory.to_owned(),
            _ => std::env::temp_dir(),
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = above.join(format!("kelson-fuzz-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for this target");
        Place(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file; the folders that it lies in are made.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        if fs::write(&path, bytes).is_err() {
            fs::create_dir_all(path.parent().expect("it lies in the folder")).expect("its folders");
            fs::write(&path, bytes).expect("a file of this target");
        }
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lends this thread's own folder, which is made at the first call and stays as it was left.
pub fn with<T>(of: &'static std::thread::LocalKey<OnceCell<Place>>, work: impl FnOnce(&Place) -> T) -> T {
    of.with(|cell| work(cell.get_or_init(Place::new)))
}
