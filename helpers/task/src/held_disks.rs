//! The disks of volumes: checked, and mounted at no place as long as a service uses them.
//!
//! A file system that is mounted several times is one to the kernel, which lets it go with the last of its mounts. The
//! process that drops that one waits for the disk. So this process has the first and the last: the service's own mounts come
//! and go at once, whether PID 1, a runtime or the kernel drops them. It also has no check run while one of them is there.

use std::ffi::OsString;
use std::fs::{OpenOptions, canonicalize};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use kelson_devices::identify;
use kelson_helper::task::VolumeRequest;
use kelson_runner::listed_mount;
use kelson_spec::disk::is_checked;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{DiskSource, FoundDisk, Volume, VolumeSource};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::check::check;
use crate::disk;
use crate::failure::at;
use crate::volumes::of_volume;

/// The volumes whose disks these words ask to hold, if they do.
pub fn asked(words: &[OsString]) -> Option<Vec<Volume>> {
    if const { !OWN.has(Feature::Volumes) } {
        return None;
    }
    match VolumeRequest::from_arguments(words) {
        Ok(VolumeRequest::Hold { volumes }) => Some(volumes),
        _ => None,
    }
}

/// Mounts the disks of volumes. Returns what was found, as words, and the mounts.
///
/// # Errors
/// A sentence that names each volume that failed, and says why.
pub fn mount(volumes: &[Volume]) -> Result<(String, Vec<OwnedFd>), String> {
    let (mut words, mut held, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for volume in volumes {
        match mount_one(volume) {
            Ok((disk, mount)) => {
                words.push(disk.to_words());
                held.push(mount);
            }
            Err(why) => failures.push(of_volume(volume, why)),
        }
    }
    if failures.is_empty() { Ok((words.join(" "), held)) } else { Err(failures.join("; ")) }
}

fn mount_one(volume: &Volume) -> Result<(FoundDisk, OwnedFd), String> {
    let mut volume = volume.clone();
    let VolumeSource::Disk(source) = &mut volume.source else {
        return Err("it is no disk".to_owned());
    };
    let (device, file) = disk::open(&source.device, source.wait)?;
    let device = canonicalize(&device).map_err(|error| at(&device, error))?;
    // Services that share it come one after the other. It is let go before the mounts are.
    let file = Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| at(&device, format!("cannot lock it: {}", errno.desc())))?;
    let on_it = identify(&*file).map(|found| found.fs_type);
    check_once(source, &device, on_it)?;
    let fs_type = match source.fs_type.as_str() {
        DiskSource::AUTO => on_it.ok_or_else(|| at(&device, "no file system that is known is on it"))?,
        named => named,
    };
    let disk = FoundDisk { fs_type: fs_type.to_owned(), device };
    source.found(disk.clone());
    let mounted = kelson_container::make(&listed_mount(&volume.mount((0, 0)), false));
    let (mounted, _) = mounted.map_err(|error| format!("{error}{}", hint(error.errno(), &disk.fs_type)))?;
    Ok((disk, mounted))
}

/// Checks a file system as the boot does, unless it is mounted.
fn check_once(source: &DiskSource, device: &Path, on_it: Option<&str>) -> Result<(), String> {
    let options = source.options.iter().map(String::as_str);
    if !OWN.has(Feature::Disks) || !is_checked(&source.fs_type, options, on_it) || is_used(device)? {
        return Ok(());
    }
    let checked = check(device);
    checked.map(drop).map_err(|why| at(device, format!("it is not sound: {why}; check it by hand")))
}

/// Whether it is mounted, in whatever mount namespace, or used otherwise.
fn is_used(device: &Path) -> Result<bool, String> {
    match OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(true),
        Err(error) => Err(at(device, error)),
    }
}

fn hint(errno: Option<Errno>, fs_type: &str) -> String {
    match errno {
        Some(Errno::EACCES | Errno::EROFS) => {
            "; if it is write-protected, write options: [ro] in the source".to_owned()
        }
        Some(errno) => crate::mount::hint(errno, fs_type),
        None => String::new(),
    }
}
