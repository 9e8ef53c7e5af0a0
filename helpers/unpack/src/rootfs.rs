//! A look into the files of an unpacked image.
//!
//! Its root is mounted read-only, in this process's own mounts alone, and a file is opened by a walk that cannot leave
//! it: whatever links the image holds end within the image.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use kelson_containerd::Mount;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::CloneFlags;
use nix::sys::stat::Mode;

/// Bytes that are read of a file; no host has that many users.
const MOST: u64 = 1 << 20;

/// The image's `/etc/passwd` and `/etc/group`; one that is not there is empty.
pub struct AccountFiles {
    pub passwd: Vec<u8>,
    pub group: Vec<u8>,
}

/// Reads them from the snapshot that these mounts show. `point` is made, and gone afterwards.
pub async fn account_files(mounts: Vec<Mount>, point: PathBuf) -> io::Result<AccountFiles> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    // A thread of its own: it changes its working directory.
    std::thread::Builder::new().spawn(move || {
        let _ = answer.send(look(&mounts, &point));
    })?;
    answered.await.map_err(|_| io::Error::other("a thread ended before its work was done"))?
}

fn look(mounts: &[Mount], point: &Path) -> io::Result<AccountFiles> {
    fs::create_dir_all(point)?;
    let files = mount_all(mounts, point).and_then(|()| {
        let files = read_files(point);
        let unmounted = umount2(point, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW);
        let files = files?;
        unmounted?;
        Ok(files)
    });
    let _ = fs::remove_dir(point);
    files
}

fn read_files(root: &Path) -> io::Result<AccountFiles> {
    let root = nix::fcntl::open(
        root,
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    Ok(AccountFiles { passwd: read_file(&root, "etc/passwd")?, group: read_file(&root, "etc/group")? })
}

/// A regular file within `root`, bounded.
fn read_file(root: &OwnedFd, path: &str) -> io::Result<Vec<u8>> {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let file = match openat2(root, path, how) {
        Ok(file) => File::from(file),
        // A file that is not there, or is no file, knows no users.
        Err(nix::Error::ENOENT | nix::Error::ENOTDIR | nix::Error::ELOOP | nix::Error::ENXIO) => {
            return Ok(Vec::new());
        }
        Err(errno) => return Err(errno.into()),
    };
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take(MOST).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Mounts what containerd returned, read-only. One mount is what all its snapshotters return.
fn mount_all(mounts: &[Mount], point: &Path) -> io::Result<()> {
    let [one] = mounts else {
        return Err(io::Error::other(format!("containerd tells {} mounts instead of one", mounts.len())));
    };
    let safe = MsFlags::MS_RDONLY | MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    match one.r#type.as_str() {
        "bind" => {
            mount(Some(one.source.as_str()), point, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
            let remount = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | safe;
            if let Err(errno) = mount(None::<&str>, point, None::<&str>, remount, None::<&str>) {
                let _ = umount2(point, MntFlags::MNT_DETACH);
                return Err(errno.into());
            }
            Ok(())
        }
        "overlay" => {
            let (below, data) = overlay_data(&one.options);
            if let Some(below) = below {
                nix::sched::unshare(CloneFlags::CLONE_FS)?;
                std::env::set_current_dir(below)?;
            }
            mount(Some("overlay"), point, Some("overlay"), safe, Some(data.as_str()))?;
            Ok(())
        }
        other => Err(io::Error::other(format!("containerd tells a mount of the type {other:?}"))),
    }
}

/// The options of an overlay that is only read, and the folder against which their paths are to be read: the kernel
/// takes a page of options, and forty layers with their whole paths are more.
fn overlay_data(options: &[String]) -> (Option<String>, String) {
    let mut below = None;
    let mut data = Vec::new();
    for option in options {
        match option.split_once('=') {
            Some(("lowerdir", layers)) => {
                let layers: Vec<&str> = layers.split(':').collect();
                let common = common_folder(&layers);
                let short: Vec<&str> =
                    layers.iter().map(|layer| layer.strip_prefix(&common).unwrap_or(layer)).collect();
                data.push(format!("lowerdir={}", short.join(":")));
                below = Some(common).filter(|common| !common.is_empty());
            }
            // Flags of the mount itself are set anyhow; a view has no writable folder.
            _ if ["ro", "rw"].contains(&option.as_str()) => {}
            _ => data.push(option.clone()),
        }
    }
    (below, data.join(","))
}

/// The longest folder, with the slash at its end, in which all these paths are.
fn common_folder(paths: &[&str]) -> String {
    let Some(first) = paths.first() else { return String::new() };
    let mut common = first.rsplit_once('/').map_or("", |(folder, _)| folder);
    while !common.is_empty()
        && !paths.iter().all(|path| path.strip_prefix(common).is_some_and(|rest| rest.starts_with('/')))
    {
        common = common.rsplit_once('/').map_or("", |(folder, _)| folder);
    }
    if common.is_empty() { String::new() } else { format!("{common}/") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_options_of_many_layers_stay_short() {
        let option = |text: &str| text.to_owned();
        let layers = "lowerdir=/var/lib/o/snapshots/3/fs:/var/lib/o/snapshots/12/fs";
        let (below, data) = overlay_data(&[option("index=off"), option("ro"), option(layers)]);
        assert_eq!(below.as_deref(), Some("/var/lib/o/snapshots/"));
        assert_eq!(data, "index=off,lowerdir=3/fs:12/fs");
        assert_eq!(common_folder(&["/a/b", "/c/d"]), "");
        assert_eq!(common_folder(&["/a/b", "/ab/d"]), "");
        assert_eq!(common_folder(&["/a/b/c"]), "/a/b/");
    }

    #[test]
    fn no_link_leaves_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::create_dir_all(root.join("real")).unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        fs::write(root.join("real/group"), "inside").unwrap();
        symlink("../../secret", root.join("etc/passwd")).unwrap();
        symlink("/real/group", root.join("etc/group")).unwrap();
        let files = read_files(&root).unwrap();
        assert_eq!((files.passwd.as_slice(), files.group.as_slice()), (&b""[..], &b"inside"[..]));
    }

    #[test]
    fn what_is_no_file_knows_nobody() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("etc/passwd")).unwrap();
        nix::unistd::mkfifo(&folder.path().join("etc/group"), Mode::S_IRWXU).unwrap();
        let files = read_files(folder.path()).unwrap();
        assert!(files.passwd.is_empty() && files.group.is_empty());
    }
}
