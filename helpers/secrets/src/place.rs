//! The secrets of a service as files: in memory that is mounted for it alone, and gone when the service has stopped.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, FileTimes, Metadata, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::{Path, PathBuf};

use kelson_spec::secrets::{LONGEST_VALUE, SecretUse};
use kelson_sys::removed;
use libc::O_NOFOLLOW;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::memory::{FLAGS, mount_memory};
use crate::sealed::Opened;
use crate::{SecretError, Store};

/// Of the folder of all services: one who may look into a folder in it gets there, and nobody sees which there are.
const OUTER: u32 = 0o711;
/// Of the folder of a service, for its owner, and for others that a file in it is for.
const FOLDER: [(u32, u32); 3] = [(0o777, 0o500), (0o070, 0o050), (0o007, 0o005)];
/// What a file takes of a memory file system besides its length, at most: a page of the largest.
const PAGE: u64 = 64 << 10;

/// The user and the group of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    /// Gives it a file of this process. A service without a user runs as this process does, also in a container.
    fn takes(self, file: &File) -> io::Result<()> {
        if (self.uid, self.gid) == (0, 0) { Ok(()) } else { fchown(file, Some(self.uid), Some(self.gid)) }
    }
}

/// Places secrets in the folder of a service, in the place of those of an earlier run. Nothing is placed unless all are.
///
/// The time of a file is that at which its secret was set.
///
/// # Errors
/// A secret that cannot be opened, or no memory.
pub fn place(
    store: &Store,
    folder: &Path,
    owner: Owner,
    secrets: &[SecretUse],
) -> Result<String, SecretError> {
    let opened = secrets.iter().map(|one| Ok((one, store.open(&one.name)?)));
    let opened: Vec<(&SecretUse, Opened)> = opened.collect::<Result<_, SecretError>>()?;
    place_opened(folder, owner, &opened)
}

/// The same with secrets that are open.
pub(crate) fn place_opened(
    folder: &Path,
    owner: Owner,
    opened: &[(&SecretUse, Opened)],
) -> Result<String, SecretError> {
    withdraw(folder)?;
    let outer = folder.parent().unwrap_or(Path::new("/"));
    let make = || {
        DirBuilder::new().recursive(true).mode(OUTER).create(outer)?;
        fs::set_permissions(outer, Permissions::from_mode(OUTER))?;
        DirBuilder::new().mode(0o700).create(folder)
    };
    make().map_err(SecretError::at(folder))?;
    // Of the longest values, one of them twice: they may be renewed.
    let files = (opened.len() as u64).saturating_add(1);
    let size = files.saturating_mul(PAGE.saturating_add(LONGEST_VALUE as u64)).saturating_add(PAGE);
    let placed = mount_memory(folder, size).and_then(|fs_type| {
        fill(folder, owner, opened).map_err(SecretError::at(folder))?;
        if let Some(fs_type) = fs_type {
            let read_only = FLAGS | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
            let mounted = mount(None::<&str>, folder, None::<&str>, read_only, None::<&str>);
            mounted.map_err(|errno| SecretError::at(folder)(errno.into()))?;
            return Ok(format!("{} in {fs_type}", opened.len()));
        }
        Ok(format!("{} in a folder", opened.len()))
    });
    if placed.is_err() {
        // The reason that is reported is the first one.
        let _ = withdraw(folder);
    }
    placed
}

/// Replaces the file of a secret in the folder of a service that runs, also where the service sees that folder elsewhere. The
/// owner and the permissions stay. A service that has no such file is left as it is.
///
/// # Errors
/// A secret that cannot be opened, or a file that stays as it was.
pub fn renew(store: &Store, folder: &Path, secret: &SecretUse) -> Result<(), SecretError> {
    let opened = store.open(&secret.name)?;
    let path = folder.join(&secret.file);
    let Ok(before) = path.symlink_metadata() else { return Ok(()) };
    remount(folder, MsFlags::empty());
    let replaced = replace(&path, &before, &opened);
    remount(folder, MsFlags::MS_RDONLY);
    replaced.map_err(SecretError::at(&path))
}

/// One that is no mount can be written as it is.
fn remount(folder: &Path, flags: MsFlags) {
    let _ = mount(None::<&str>, folder, None::<&str>, FLAGS | MsFlags::MS_REMOUNT | flags, None::<&str>);
}

fn replace(path: &Path, before: &Metadata, opened: &Opened) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    let modes = fs::metadata(parent)?.permissions();
    // Root of a container may lack the capability to write where the owner may not.
    fs::set_permissions(parent, Permissions::from_mode(modes.mode() | 0o200))?;
    // No secret has such a name.
    let half = parent.join(".new");
    let write = || {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
        file.write_all(&opened.value)?;
        file.set_times(FileTimes::new().set_modified(opened.about.set_at))?;
        Owner { uid: before.uid(), gid: before.gid() }.takes(&file)?;
        file.set_permissions(before.permissions())?;
        fs::rename(&half, path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&half);
    }
    written.and(fs::set_permissions(parent, modes))
}

/// Takes the secrets of a service away. Elsewhere, such as in a mount namespace that a process has made, they are gone too.
///
/// # Errors
/// When they stay.
pub fn withdraw(folder: &Path) -> Result<(), SecretError> {
    let failed = SecretError::at(folder);
    if !folder.exists() {
        return Ok(());
    }
    // Several lie over each other where the answer of an earlier call was lost.
    loop {
        if mount(None::<&str>, folder, None::<&str>, FLAGS | MsFlags::MS_REMOUNT, None::<&str>).is_ok() {
            empty(folder).map_err(&failed)?;
        }
        match umount2(folder, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) => {}
            // It is no mount, or this host cannot have one.
            Err(Errno::EINVAL | Errno::EPERM) => break,
            Err(errno) => return Err(failed(errno.into())),
        }
    }
    removed(empty(folder).and_then(|()| fs::remove_dir(folder))).map_err(failed)
}

/// Root of a container may lack the capability to write where its owner may not.
fn empty(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => empty(&entry.path()).and_then(|()| fs::remove_dir(entry.path()))?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

fn fill(folder: &Path, owner: Owner, opened: &[(&SecretUse, Opened)]) -> io::Result<()> {
    let mut folders = BTreeSet::from([folder.to_owned()]);
    for (secret, Opened { about, value }) in opened {
        let path = folder.join(&secret.file);
        let between: Vec<PathBuf> =
            path.ancestors().skip(1).take_while(|above| *above != folder).map(Path::to_owned).collect();
        for above in between.into_iter().rev() {
            match DirBuilder::new().mode(0o700).create(&above) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made?,
            }
            folders.insert(above);
        }
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).custom_flags(O_NOFOLLOW).open(&path)?;
        file.write_all(value)?;
        file.set_times(FileTimes::new().set_modified(about.set_at))?;
        owner.takes(&file)?;
        file.set_permissions(Permissions::from_mode(secret.mode))?;
    }
    let modes = opened.iter().fold(0, |modes, (secret, _)| modes | secret.mode);
    let mode = FOLDER.iter().filter(|(of, _)| modes & of != 0).fold(0, |mode, (_, bits)| mode | bits);
    for folder in folders {
        let folder = File::open(folder)?;
        owner.takes(&folder)?;
        folder.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(())
}

#[cfg(test)]
pub mod testing {
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    /// Runs this in a mount namespace of its own, as root.
    pub fn in_a_namespace(test: impl FnOnce(&Path, &Store) + Send) {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        std::thread::scope(|scope| {
            let played = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNS).unwrap();
                let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
                mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
                let outer = tempfile::tempdir().unwrap();
                let store = Store::new(&outer.path().join("state"), &outer.path().join("run"));
                fs::create_dir(outer.path().join("state")).unwrap();
                for (name, value) in [("db", "hush"), ("tls-key", "PEM")] {
                    store.set(name, &Opened::now(value.into(), "uid 0", "")).unwrap();
                }
                test(&outer.path().join("run/secrets/web"), &store);
            });
            played.join().unwrap();
        });
    }
}

#[cfg(test)]
mod tests {
    use kelson_sys::mountinfo;
    use nix::sched::{CloneFlags, unshare};
    use std::os::fd::AsRawFd as _;

    use super::testing::in_a_namespace;
    use super::*;

    fn mount_at(folder: &Path) -> Option<mountinfo::Mount> {
        let mounts = fs::read("/proc/thread-self/mountinfo").unwrap();
        mountinfo::topmost(&mountinfo::parse(&mounts), folder).cloned()
    }

    #[test]
    fn a_service_gets_its_files_in_memory_and_loses_them() {
        in_a_namespace(|folder, store| {
            let owner = Owner { uid: 1001, gid: 1002 };
            let key = SecretUse { file: "tls/key.pem".into(), mode: 0o440, ..SecretUse::of("tls-key") };
            place(store, folder, owner, &[SecretUse::of("db"), key]).unwrap();
            let seen = |path: &str| {
                let found = fs::metadata(folder.join(path)).unwrap();
                (found.uid(), found.gid(), found.mode() & 0o7777)
            };
            assert_eq!(fs::read(folder.join("db")).unwrap(), b"hush");
            assert_eq!(fs::read(folder.join("tls/key.pem")).unwrap(), b"PEM");
            assert_eq!([seen(""), seen("tls")], [(1001, 1002, 0o550); 2]);
            assert_eq!((seen("db"), seen("tls/key.pem")), ((1001, 1002, 0o400), (1001, 1002, 0o440)));
            let set_at = store.open("db").unwrap().about.set_at;
            assert_eq!(fs::metadata(folder.join("db")).unwrap().modified().unwrap(), set_at);
            let mount = mount_at(folder).unwrap();
            assert!(!mount.writable() && ["tmpfs", "ramfs"].contains(&mount.fs_type.as_str()), "{mount:?}");
            for option in ["nosuid", "nodev", "noexec"] {
                assert!(mount.options.iter().any(|word| word == option), "{mount:?}");
            }
            // A later run has the new value alone.
            store.set("db", &Opened::now(b"new".to_vec(), "uid 0", "")).unwrap();
            place(store, folder, owner, &[SecretUse::of("db")]).unwrap();
            assert_eq!(fs::read(folder.join("db")).unwrap(), b"new");
            assert_eq!((seen("").2, folder.join("tls").exists()), (0o500, false));
            withdraw(folder).unwrap();
            assert!(!folder.exists() && mount_at(folder).is_none(), "one run lies over no other");
            withdraw(folder).unwrap();
        });
    }

    #[test]
    fn files_are_gone_in_other_namespaces_too() {
        in_a_namespace(|folder, store| {
            place(store, folder, Owner { uid: 0, gid: 0 }, &[SecretUse::of("db")]).unwrap();
            // A thread that panics drops its ends.
            let (made, is_made) = std::sync::mpsc::channel();
            let (withdrawn, is_withdrawn) = std::sync::mpsc::channel::<()>();
            let place = folder.to_owned();
            let other = std::thread::spawn(move || {
                unshare(CloneFlags::CLONE_NEWNS).unwrap();
                assert_eq!(fs::read(place.join("db")).unwrap(), b"hush");
                let inside = File::open(place).unwrap();
                made.send(()).unwrap();
                is_withdrawn.recv().unwrap();
                let inside = format!("/proc/self/fd/{}", inside.as_raw_fd());
                assert_eq!(fs::read_dir(inside).unwrap().count(), 0);
            });
            is_made.recv().unwrap();
            withdraw(folder).unwrap();
            withdrawn.send(()).unwrap();
            other.join().unwrap();
        });
    }

    #[test]
    fn a_file_that_is_renewed_is_another_where_its_folder_is_seen() {
        in_a_namespace(|folder, store| {
            let owner = Owner { uid: 1001, gid: 1002 };
            let key = SecretUse { file: "tls/key.pem".into(), mode: 0o440, ..SecretUse::of("tls-key") };
            place(store, folder, owner, &[SecretUse::of("db"), key.clone()]).unwrap();
            // As a container has it.
            let elsewhere = folder.with_file_name("elsewhere");
            fs::create_dir(&elsewhere).unwrap();
            mount(Some(folder), &elsewhere, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
            let long = vec![b'x'; LONGEST_VALUE];
            store.set("tls-key", &Opened::now(long.clone(), "uid 0", "")).unwrap();
            store.set("db", &Opened::now(long.clone(), "uid 0", "")).unwrap();
            renew(store, folder, &SecretUse::of("db")).unwrap();
            renew(store, folder, &key).unwrap();
            for folder in [folder, &elsewhere] {
                let found = fs::metadata(folder.join("tls/key.pem")).unwrap();
                assert_eq!(fs::read(folder.join("tls/key.pem")).unwrap(), long);
                assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1001, 1002, 0o440));
                assert_eq!(found.modified().unwrap(), store.open("tls-key").unwrap().about.set_at);
                assert_eq!(fs::metadata(folder.join("tls")).unwrap().mode() & 0o7777, 0o550);
                assert_eq!(fs::read_dir(folder.join("tls")).unwrap().count(), 1);
            }
            assert!(!mount_at(folder).unwrap().writable());
            // A service whose run has no such file.
            store.set("new", &Opened::now(b"x".to_vec(), "uid 0", "")).unwrap();
            renew(store, folder, &SecretUse::of("new")).unwrap();
            assert!(!folder.join("new").exists());
            umount2(&elsewhere, MntFlags::MNT_DETACH).unwrap();
            withdraw(folder).unwrap();
        });
    }

    #[test]
    fn nothing_is_placed_unless_all_are() {
        in_a_namespace(|folder, store| {
            let owner = Owner { uid: 0, gid: 0 };
            let missing = place(store, folder, owner, &[SecretUse::of("db"), SecretUse::of("none")]);
            assert!(matches!(missing, Err(SecretError::Unknown(name)) if name == "none"));
            assert!(!folder.exists());
            let twice = place(store, folder, owner, &[SecretUse::of("db"), SecretUse::of("db")]);
            assert!(twice.unwrap_err().to_string().ends_with(": File exists"));
            assert!(!folder.exists() && mount_at(folder).is_none());
        });
    }
}
