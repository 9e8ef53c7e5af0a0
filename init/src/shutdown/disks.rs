//! Swap, encrypted disks and loop devices: what holds a disk without being a mount.

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

/// Takes away all devices of the device mapper that nothing uses, again and again until nothing more goes. Returns how many
/// went, and the others with what is wrong.
pub async fn remove_mappings(launcher: &dyn Launcher, call: Duration) -> (usize, Vec<String>) {
    let mut done: usize = 0;
    loop {
        let (before, mut stuck) = (done, Vec::new());
        for name in mappings(Path::new("/sys/class/block")) {
            match task::run(launcher, &Request::RemoveMapping { name }, call).await {
                Ok(_) => done = done.saturating_add(1),
                Err(error) => stuck.push(error.to_string()),
            }
        }
        // One may have held another.
        if stuck.is_empty() || done == before {
            return (done, stuck);
        }
    }
}

/// The names of the devices of the device mapper.
fn mappings(devices: &Path) -> Vec<String> {
    let Ok(folder) = std::fs::read_dir(devices) else { return Vec::new() };
    let names =
        folder.flatten().filter_map(|entry| std::fs::read_to_string(entry.path().join("dm/name")).ok());
    names.map(|name| name.trim_end().to_owned()).collect()
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
    fn only_loops_with_a_file_and_mappings_are_listed() {
        let folder = std::env::temp_dir().join(format!("kelson-loops-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("loop0/loop")).unwrap();
        std::fs::create_dir_all(folder.join("loop1")).unwrap();
        std::fs::write(folder.join("loop0/loop/backing_file"), "/x\n").unwrap();
        std::fs::create_dir_all(folder.join("dm-0/dm")).unwrap();
        std::fs::write(folder.join("dm-0/dm/name"), "data\n").unwrap();
        assert_eq!(attached_loops(&folder), [PathBuf::from("/dev/loop0")]);
        assert_eq!(mappings(&folder), ["data"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
