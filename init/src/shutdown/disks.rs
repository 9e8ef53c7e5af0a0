//! Swap and loop devices: what holds a disk without being a mount.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_sys::swaps;

use crate::task::{self, Request};

/// Turns all swap off; each at most `call` long.
pub async fn swap_off(launcher: &dyn Launcher, call: Duration) {
    for device in swaps::read() {
        if let Err(error) = task::run(launcher, &Request::SwapOff { device: device.clone() }, call).await {
            tracing::error!("shutdown: swap on {} stays: {error}", device.display());
        }
    }
}

/// Takes their files away from all loop devices that have one. Returns how many let go.
pub async fn detach_loops(launcher: &dyn Launcher, call: Duration) -> usize {
    let mut done: usize = 0;
    for device in attached_loops(Path::new("/sys/class/block")) {
        match task::run(launcher, &Request::DetachLoop { device: device.clone() }, call).await {
            Ok(_) => done = done.saturating_add(1),
            Err(error) => tracing::error!("shutdown: {} keeps its file: {error}", device.display()),
        }
    }
    done
}

fn attached_loops(devices: &Path) -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(devices) else { return Vec::new() };
    let attached = folder.flatten().filter(|entry| entry.path().join("loop/backing_file").exists());
    attached.map(|entry| Path::new("/dev").join(entry.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loops_with_a_file_are_listed() {
        let folder = std::env::temp_dir().join(format!("kelson-loops-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("loop0/loop")).unwrap();
        std::fs::create_dir_all(folder.join("loop1")).unwrap();
        std::fs::write(folder.join("loop0/loop/backing_file"), "/x\n").unwrap();
        assert_eq!(attached_loops(&folder), [PathBuf::from("/dev/loop0")]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
