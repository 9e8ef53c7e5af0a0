//! The sources of volumes that are paths of the host: looked for, and made where that is asked for.
//!
//! A source that is there stays as it is. What is made is made through no link: the user of a service may have put one into
//! a folder above.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kelson_helper::task::VolumeRequest;
use kelson_spec::service::{NewFolder, OverlaySource, PathSource, Upper, Volume, VolumeSource};
use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, ResolveFlag, open, renameat2};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, unlinkat};

use crate::directories::{base, enter, make_one, walk};
use crate::failure::at;
use crate::{free_space, plugin};

/// Makes the call of a [`VolumeRequest`].
///
/// # Errors
/// A sentence that names each volume that failed, and says why.
pub fn perform(words: &[OsString], control: impl FnOnce() -> OwnedFd) -> Result<String, String> {
    let (uid, gid, volumes) = match VolumeRequest::from_arguments(words)? {
        VolumeRequest::Prepare { uid, gid, volumes } => (uid, gid, volumes),
        VolumeRequest::Plugin { folder, socket } => return plugin::prepare(&folder, &socket),
        VolumeRequest::Free { volume, pid, target, at_least } => {
            return free_space::check(&volume, pid, &target, at_least);
        }
        VolumeRequest::Release => {
            drop(control());
            return Ok(String::new());
        }
        VolumeRequest::Hold { .. } => return Err("disks are held by a process of their own".to_owned()),
    };
    let failures: Vec<String> =
        volumes.iter().filter_map(|volume| prepare(volume, (uid, gid)).err()).collect();
    if failures.is_empty() { Ok(String::new()) } else { Err(failures.join("; ")) }
}

/// Names the volume that is the cause.
pub fn of_volume(volume: &Volume, why: impl std::fmt::Display) -> String {
    format!("volume {}: {why}", volume.name)
}

fn prepare(volume: &Volume, owner: (u32, u32)) -> Result<(), String> {
    match &volume.source {
        VolumeSource::Path(PathSource { path, create }) => find_or_make(path, create.as_ref(), owner),
        VolumeSource::Overlay(source) => prepare_overlay(source, owner),
        _ => Ok(()),
    }
    .map_err(|why| of_volume(volume, why))
}

/// Finds the folders of an overlay, and makes those that it writes to.
fn prepare_overlay(source: &OverlaySource, owner: (u32, u32)) -> Result<(), String> {
    let device = |path: &Path| match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(found.dev()),
        Ok(_) => Err(at(path, "it is not a folder")),
        Err(error) => Err(at(path, error)),
    };
    source.lower.iter().try_for_each(|path| device(path).map(drop))?;
    let Some(Upper { upper, work }) = &source.upper else { return Ok(()) };
    find_or_make(upper, source.create.as_ref(), owner)?;
    // The kernel's alone.
    let closed = source.create.as_ref().map(|_| NewFolder { owner: Some((0, 0)), mode: 0o700 });
    find_or_make(work, closed.as_ref(), owner)?;
    if device(upper)? == device(work)? {
        return Ok(());
    }
    let beside = upper.display();
    Err(at(work, format!("it is on another file system than {beside}; write a folder beside that as work")))
}

fn find_or_make(path: &Path, create: Option<&NewFolder>, owner: (u32, u32)) -> Result<(), String> {
    let find = || open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
    let why = match (find(), create) {
        (Ok(_), _) => return Ok(()),
        (Err(Errno::ENOENT), None) => "it is not there; make it, or write create: {} in its source",
        (Err(Errno::ENOENT), Some(folder)) => match make(path, folder, owner) {
            Ok(()) => return Ok(()),
            // Several services may name it, and make it at once.
            Err(_) if find().is_ok() => return Ok(()),
            Err(Errno::ELOOP | Errno::EEXIST) => {
                "cannot make it: there is a symbolic link in its path, and Kelson makes nothing through one"
            }
            Err(errno) => errno.desc(),
        },
        (Err(errno), _) => errno.desc(),
    };
    Err(at(path, why))
}

/// Makes a folder, with those above it where they are missing.
fn make(path: &Path, folder: &NewFolder, owner: (u32, u32)) -> nix::Result<()> {
    let parts = path.strip_prefix("/").map_err(|_| Errno::EINVAL)?;
    let (above, name) = parts.parent().zip(parts.file_name()).ok_or(Errno::EINVAL)?;
    let above = walk(base(Path::new("/"))?, above, true)?;
    // It comes with its owner: one that a crash has left half made would stay so.
    let mut new = OsString::from(".kelson-");
    new.push(name);
    make_one(&above, &new)?;
    let made = enter(&above, &new, ResolveFlag::empty())?;
    let (uid, gid) = folder.owner.unwrap_or(owner);
    fchown(&made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    // A change of the owner takes bits away.
    fchmod(&made, Mode::from_bits_truncate(folder.mode))?;
    let named = renameat2(&above, new.as_os_str(), &above, name, RenameFlags::RENAME_NOREPLACE);
    if named.is_err() {
        // Another service was faster, or a link stands there. It is empty.
        let _ = unlinkat(&above, new.as_os_str(), UnlinkatFlags::RemoveDir);
    }
    named
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use nix::unistd::{getegid, geteuid};

    use super::*;

    fn asked(path: &Path, create: Option<NewFolder>) -> Result<String, String> {
        prepared(VolumeSource::Path(PathSource { path: path.to_owned(), create }))
    }

    fn prepared(source: VolumeSource) -> Result<String, String> {
        let volumes = vec![Volume { name: "data".to_owned(), source, ..Volume::default() }];
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let words = VolumeRequest::Prepare { uid, gid, volumes }.to_arguments();
        perform(&words, || panic!("no request of these has a descriptor"))
    }

    #[test]
    fn a_missing_source_is_made_once_and_then_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let new = |mode| Some(NewFolder { mode, ..NewFolder::default() });
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        let missing = asked(&path, None).unwrap_err();
        let expected = "it is not there; make it, or write create: {} in its source";
        assert_eq!(missing, format!("volume data: {}: {expected}", path.display()));
        asked(&path, new(0o2750)).unwrap();
        assert_eq!((mode(&path), mode(&folder.path().join("a"))), (0o2750, 0o755));
        asked(&path, new(0o700)).unwrap();
        asked(&path, None).unwrap();
        assert_eq!(mode(&path), 0o2750);
    }

    #[test]
    fn the_folders_of_an_overlay_are_found_or_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let asked = |lower: &str, work: PathBuf, create| {
            let upper = Some(Upper { upper: at("kept/upper"), work });
            let lower = vec![at("lower"), at(lower)];
            prepared(VolumeSource::Overlay(OverlaySource { lower, upper, create, size: None }))
        };
        let new = |mode| Some(NewFolder { mode, owner: None });
        fs::create_dir(at("lower")).unwrap();
        fs::write(at("file"), "").unwrap();
        for (lower, why) in [("none", "No such file"), ("file", "it is not a folder")] {
            let failed = asked(lower, at("kept/work"), new(0o750)).unwrap_err();
            let named = format!("volume data: {}: {why}", at(lower).display());
            assert!(failed.starts_with(&named), "{failed}");
        }
        let failed = asked("lower", at("kept/work"), None).unwrap_err();
        assert!(failed.contains("kept/upper: it is not there"), "{failed}");
        asked("lower", at("kept/work"), new(0o750)).unwrap();
        let mode = |name: &str| fs::metadata(at(name)).unwrap().mode() & 0o7777;
        assert_eq!((mode("kept/upper"), mode("kept/work")), (0o750, 0o700));
        let failed = asked("lower", "/dev".into(), None).unwrap_err();
        assert!(failed.contains("/dev: it is on another file system than"), "{failed}");
    }

    #[test]
    fn nothing_is_made_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        let refused = asked(&link.join("new"), Some(NewFolder::default())).unwrap_err();
        assert!(refused.contains("a symbolic link in its path"), "{refused}");
        assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
        symlink(folder.path().join("nowhere"), folder.path().join("dangling")).unwrap();
        let refused = asked(&folder.path().join("dangling"), Some(NewFolder::default())).unwrap_err();
        assert!(refused.contains("a symbolic link"), "{refused}");
        asked(&link, Some(NewFolder::default())).unwrap();
        let left = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
        assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
    }

    #[test]
    fn services_that_start_at_once_make_one_source() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let path = folder.path().join(round.to_string());
            let all: Vec<_> = std::thread::scope(|scope| {
                let ask = || asked(&path, Some(NewFolder { owner: None, mode: 0o750 }));
                let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
                asking.into_iter().map(|one| one.join().unwrap()).collect()
            });
            assert!(all.iter().all(Result::is_ok), "{all:?}");
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 50);
    }
}
