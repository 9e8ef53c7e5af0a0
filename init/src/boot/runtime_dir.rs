//! The runtime folder of a container that cannot write the one it is to have: a folder in shared memory, which engines
//! mount also where the root is read-only, or none.
//!
//! Each incarnation of PID 1 comes to the same choice, before it reads anything there.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::TaskFailure;
use super::mounts::runtime_folders;
use crate::error::At as _;
use crate::options::{Options, RuntimePlace};

/// Chooses the folder, unless the command line names one: without that, the boot fails.
pub fn choose(options: &mut Options) {
    if options.runtime_dir == Options::new(options.mode).runtime_dir {
        choose_another(options);
    }
}

/// Where the folder cannot be written. One line tells of that.
fn choose_another(options: &mut Options) {
    let Err(failure) = usable(&options.runtime_dir) else { return };
    let why = failure.message;
    let shared = shared();
    if shared.as_deref().is_some_and(|shared| own(shared).is_ok()) {
        options.runtime_dir = shared.unwrap_or_default();
        options.runtime_place = RuntimePlace::Shared;
        let shared = options.runtime_dir.display();
        tracing::info!(
            "{why}: state and sockets are in {shared}, call `kelsonctl --endpoint unix://{shared}/init.sock`, or start \
             init with --runtime-dir for another folder"
        );
    } else {
        options.runtime_place = RuntimePlace::Nowhere;
        tracing::info!(
            "{why}: nothing is written down, and kelsonctl cannot reach this host; start init with --runtime-dir and a \
             folder that it can write"
        );
    }
}

/// Makes the folders, and looks whether this process can write to them.
fn usable(folder: &Path) -> Result<(), TaskFailure> {
    runtime_folders(folder, false)?;
    let writable = AccessFlags::W_OK | AccessFlags::X_OK;
    for folder in [folder, &folder.join("state")] {
        access(folder, writable).map_err(std::io::Error::from).at(folder.display())?;
    }
    Ok(())
}

/// One for each PID namespace: several may share the memory.
fn shared() -> Option<PathBuf> {
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    Some(Path::new("/dev/shm").join(format!("kelson-{namespace}")))
}

/// Makes a folder where everybody may make one: it has to be this user's.
fn own(folder: &Path) -> Result<(), TaskFailure> {
    match fs::DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != nix::unistd::geteuid().as_raw() {
        return Err(TaskFailure::from("it is somebody else's"));
    }
    usable(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mode;

    fn chosen(runtime: &Path) -> Options {
        let mut options = Options { runtime_dir: runtime.to_owned(), ..Options::new(Mode::Container) };
        choose_another(&mut options);
        options
    }

    #[test]
    fn a_folder_that_can_be_written_stays() {
        let folder = std::env::temp_dir().join(format!("kelson-runtime-{}", std::process::id()));
        let options = chosen(&folder);
        assert_eq!((options.runtime_dir, options.runtime_place), (folder.clone(), RuntimePlace::Wanted));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn another_takes_the_place_of_one_that_cannot_be_made() {
        let options = chosen(Path::new("/proc/self/kelson"));
        assert_eq!(options.runtime_place, RuntimePlace::Shared);
        assert_eq!(Some(&options.runtime_dir), shared().as_ref());
        assert!(options.runtime_dir.join("state").is_dir());
        fs::remove_dir_all(&options.runtime_dir).unwrap();
    }

    #[test]
    fn a_folder_that_is_named_is_not_replaced() {
        let named = PathBuf::from("/proc/self/kelson");
        let mut options = Options { runtime_dir: named.clone(), ..Options::new(Mode::Container) };
        choose(&mut options);
        assert_eq!((options.runtime_dir, options.runtime_place), (named, RuntimePlace::Wanted));
    }

    #[test]
    fn a_folder_of_somebody_else_and_a_link_are_not_taken() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let folder = std::env::temp_dir().join(format!("kelson-shared-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::chown(&folder, Some(65_534), None).unwrap();
        assert_eq!(own(&folder).unwrap_err().message, "it is somebody else's");
        let link = folder.with_extension("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(own(&link).is_err());
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
