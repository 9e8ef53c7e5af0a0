//! The folder in which containerd prepares a task: its bundle.
//!
//! containerd makes the folder, starts a shim in it, and has the shim make the task. When containerd dies before the
//! shim has begun with the task, the next containerd knows no such task, but cannot remove the folder either: for that
//! it runs the shim's `delete`, which fails because the file `runtime` is missing (containerd 1.6 and 1.7). From then on
//! it refuses every task of that name with "file exists", also after further restarts.

use std::io;
use std::path::Path;

use kelson_containerd::Containerd;

/// Removes the bundle of a service whose task no shim has begun to make. Returns whether there was one.
///
/// A bundle with the file `runtime` is left alone: containerd removes it itself, and a root may be mounted in it. The
/// shim writes that file before it mounts. The folder is on a tmpfs, so this does not block.
///
/// # Errors
/// When the folder cannot be read or removed.
pub(super) fn remove_unused(runtime_dir: &Path, service: &str) -> io::Result<bool> {
    let folder = Containerd::bundle(runtime_dir, service);
    if folder.join("runtime").try_exists()? {
        return Ok(false);
    }
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        // The only folder is `rootfs`, empty as long as nothing is mounted there.
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    std::fs::remove_dir(folder)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_a_bundle_without_a_task_is_removed() {
        let runtime = std::env::temp_dir().join(format!("kelson-bundle-{}", std::process::id()));
        let folder = Containerd::bundle(&runtime, "web");
        assert!(!remove_unused(&runtime, "web").unwrap());
        fs::create_dir_all(folder.join("rootfs")).unwrap();
        fs::write(folder.join("config.json"), "{}").unwrap();
        std::os::unix::fs::symlink("/nowhere", folder.join("work")).unwrap();
        fs::write(folder.join("runtime"), "").unwrap();
        assert!(!remove_unused(&runtime, "web").unwrap() && folder.join("work").is_symlink());
        fs::remove_file(folder.join("runtime")).unwrap();
        assert!(remove_unused(&runtime, "web").unwrap() && !folder.exists());
        // What lies in its root is never removed.
        fs::create_dir_all(folder.join("rootfs/etc")).unwrap();
        remove_unused(&runtime, "web").unwrap_err();
        assert!(folder.join("rootfs/etc").exists());
        fs::remove_dir_all(runtime).unwrap();
    }
}
