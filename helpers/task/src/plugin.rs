//! The folder of a plugin for volumes: a mount of its own, whose mounts are those of the containers that share it.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use kelson_spec::service::UnixKind;
use kelson_sys::mountinfo;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, ResolveFlag};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, fchmod};

use crate::directories::{base, enter, make_one};
use crate::failure::at;
use crate::sockets::remove_stale;

/// A user who may enter it gets at the volumes in it. Services have them at paths of their own, where root mounts them.
const MODE: u32 = 0o700;

/// Makes the folder where it is missing, and lets mounts that are made in a copy of it be seen in it. A socket of an earlier
/// run on which nobody listens goes.
///
/// # Errors
/// A sentence that says what failed and why.
pub fn prepare(folder: &Path, socket: &str) -> Result<String, String> {
    let failed = |errno: Errno| {
        let why = match errno {
            Errno::ELOOP => "a symbolic link is at this path; remove it",
            Errno::ENOTDIR => "something that is no folder is at this path; remove it",
            errno => errno.desc(),
        };
        at(folder, format_args!("the folder of a plugin cannot be made: {why}"))
    };
    let (above, name) = folder.parent().zip(folder.file_name()).ok_or_else(|| failed(Errno::EINVAL))?;
    // Of two plugins with this folder that start at once, one finds the mount of the other.
    let above = base(above).map_err(failed)?;
    let above = Flock::lock(above, FlockArg::LockExclusive).map_err(|(_, errno)| failed(errno))?;
    make_one(&above, name).map_err(failed)?;
    let made: OwnedFd = enter(&above, name, ResolveFlag::empty()).map_err(failed)?;
    fchmod(&made, Mode::from_bits_truncate(MODE)).map_err(failed)?;
    share(folder)?;
    // One on which somebody listens stays: the plugin says what it finds there.
    let _ = remove_stale(UnixKind::Stream, &folder.join(socket));
    Ok(String::new())
}

/// Mounts a folder on itself, once, and shares its mounts with the copies of it in other mount namespaces. Of a private root
/// nothing else would be shared, and below a shared root each mount in the folder would be made below its mount too.
fn share(folder: &Path) -> Result<(), String> {
    let table = fs::read("/proc/thread-self/mountinfo");
    let mounts = mountinfo::parse(&table.map_err(|error| format!("the table of mounts: {error}"))?);
    // The table has no path with a link in it.
    let place = fs::canonicalize(folder).map_err(|error| at(folder, error))?;
    let none = None::<&str>;
    let failed = |errno: Errno| at(folder, format_args!("cannot share its mounts: {}", errno.desc()));
    let change = |flags: MsFlags| mount(none, &place, none, flags, none).map_err(failed);
    if mountinfo::topmost(&mounts, &place).is_none() {
        mount(Some(&place), &place, none, MsFlags::MS_BIND, none).map_err(failed)?;
        change(MsFlags::MS_PRIVATE)?;
    }
    change(MsFlags::MS_SHARED)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use kelson_helper::task::VolumeRequest;
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    fn asked(folder: &Path) -> Result<String, String> {
        let request = VolumeRequest::Plugin { folder: folder.to_owned(), socket: "csi.sock".to_owned() };
        crate::volumes::perform(&request.to_arguments(), || panic!("no request of these has a descriptor"))
    }

    /// Does something in a mount namespace of its own whose root is private or shared; `None`: only root may.
    fn apart<T: Send + 'static>(root: MsFlags, act: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let work = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNS).ok()?;
            for flags in [MsFlags::MS_PRIVATE, root] {
                mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | flags, None::<&str>).ok()?;
            }
            Some(act())
        });
        let done = work.join().unwrap();
        assert!(done.is_some() || !nix::unistd::geteuid().is_root());
        done
    }

    #[test]
    fn a_folder_is_shared_once_whatever_the_root_is() {
        for root in [MsFlags::MS_PRIVATE, MsFlags::MS_SHARED] {
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join("csi/nfs");
            let place = folder.clone();
            let lines = apart(root, move || {
                asked(&place).unwrap();
                asked(&place).unwrap();
                let volume = place.join("volume");
                fs::create_dir(&volume).unwrap();
                mount(Some("tmpfs"), &volume, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
                let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
                let below = |line: &&str| {
                    line.split(' ').nth(4).is_some_and(|path| Path::new(path).starts_with(&place))
                };
                table.lines().filter(below).map(str::to_owned).collect::<Vec<_>>()
            });
            let Some(lines) = lines else { return };
            assert!(lines.len() == 2 && lines.iter().all(|line| line.contains(" shared:")), "{lines:?}");
            assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0o700);
            assert_eq!(fs::metadata(dir.path().join("csi")).unwrap().mode() & 0o7777, 0o755);
        }
    }

    #[test]
    fn a_socket_without_a_listener_goes_and_another_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("nfs");
        apart(MsFlags::MS_PRIVATE, move || {
            asked(&folder).unwrap();
            let socket = folder.join("csi.sock");
            let listener = UnixListener::bind(&socket).unwrap();
            asked(&folder).unwrap();
            assert!(socket.exists());
            drop(listener);
            asked(&folder).unwrap();
            assert!(!socket.exists());
            fs::write(&socket, "").unwrap();
            asked(&folder).unwrap();
            assert!(socket.exists());
        });
    }

    #[test]
    fn no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, other) = (dir.path().join("nfs"), dir.path().join("other"));
        fs::create_dir(&other).unwrap();
        symlink(&other, &folder).unwrap();
        let refused = asked(&folder).unwrap_err();
        assert!(refused.ends_with("cannot be made: a symbolic link is at this path; remove it"), "{refused}");
    }
}
