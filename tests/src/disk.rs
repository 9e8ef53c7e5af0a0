//! The file of a disk.

use std::path::PathBuf;

use crate::paths;

/// A disk of this test alone; removed when the test has passed.
#[derive(Debug)]
pub struct Disk(pub PathBuf);

impl Disk {
    pub fn new(name: &str) -> Disk {
        let file = paths::test_logs().join(format!("{name}.disk"));
        let _ = std::fs::remove_file(&file);
        Disk(file)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}
