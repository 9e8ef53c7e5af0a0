//! The files of a layer, as overlayfs takes them: what a layer removes of those below it is a node of device 0:0, and a folder
//! that hides all below it has an attribute.
//!
//! Every name is looked up within the folder of the layer, whatever links it holds; a name that leads out of it ends at its
//! root, as it would for a process of the container.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{
    FchmodatFlags, Mode, SFlag, UtimensatFlags, fchmodat, fstatat, makedev, mkdirat, mknodat, utimensat,
};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, linkat, symlinkat, unlinkat};
use tar::{Archive, Entry, EntryType};

/// The beginning of a name that removes the rest of it from the layers below.
const WHITEOUT: &[u8] = b".wh.";
/// The name that removes all of its folder from the layers below.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// By which overlayfs knows such a folder.
const OPAQUE_ATTRIBUTE: &CStr = c"trusted.overlay.opaque";
/// The beginning of the keys of extended attributes.
const ATTRIBUTE: &str = "SCHILY.xattr.";

/// Why a layer could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    #[error("{}: {}", path.display(), errno.desc())]
    File { path: PathBuf, errno: Errno },
    #[error("{}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("{}: it is no name of a file in a layer", .0.display())]
    Name(PathBuf),
    #[error("a thread ended before its work was done")]
    Thread,
}

/// The layer that is being unpacked.
struct Layer {
    root: OwnedFd,
    /// The folders of the layers below, the lowest first.
    below: Vec<PathBuf>,
    /// The times of folders, which change while they are filled.
    times: BTreeMap<PathBuf, TimeSpec>,
}

/// Unpacks a tar into the folder of a layer.
pub fn extract(reader: &mut impl Read, folder: &Path, below: Vec<PathBuf>) -> Result<(), ExtractError> {
    let mut layer = Layer::in_folder(folder, below)?;
    layer.look_like_below(Path::new(""))?;
    let mut archive = Archive::new(reader);
    for entry in archive.entries().map_err(ExtractError::Read)? {
        layer.put(entry.map_err(ExtractError::Read)?)?;
    }
    for (path, time) in std::mem::take(&mut layer.times) {
        layer.set_time(&path, time)?;
    }
    Ok(())
}

/// Makes an empty file in the folder of a layer, in place of what is there.
pub fn new_file(folder: &Path, path: &Path) -> Result<File, ExtractError> {
    let mut layer = Layer::in_folder(folder, Vec::new())?;
    let path = within(path)?;
    let (folder, name) = split(&path)?;
    let at = layer.folder(folder)?;
    layer.clear(&at, name, &path)?;
    let file = |errno| ExtractError::File { path: path.clone(), errno };
    let made = create(&at, name).map_err(file)?;
    nix::sys::stat::fchmod(&made, Mode::from_bits_truncate(0o644)).map_err(file)?;
    Ok(made)
}

/// Creates a file that is not there.
fn create(at: &OwnedFd, name: &OsStr) -> nix::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    nix::fcntl::openat(at, name, flags, Mode::from_bits_truncate(0o600)).map(File::from)
}

/// The path of an entry within the layer; empty for the root.
fn within(path: &Path) -> Result<PathBuf, ExtractError> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(ExtractError::Name(path.to_owned())),
        }
    }
    Ok(clean)
}

/// The folder of a name, and its last part.
fn split(path: &Path) -> Result<(&Path, &OsStr), ExtractError> {
    let name = path.file_name().ok_or_else(|| ExtractError::Name(path.to_owned()))?;
    Ok((path.parent().unwrap_or(Path::new("")), name))
}

impl Layer {
    fn in_folder(folder: &Path, below: Vec<PathBuf>) -> Result<Layer, ExtractError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = nix::fcntl::open(folder, flags, Mode::empty())
            .map_err(|errno| ExtractError::File { path: folder.to_owned(), errno })?;
        Ok(Layer { root, below, times: BTreeMap::new() })
    }

    fn put<R: Read>(&mut self, mut entry: Entry<'_, R>) -> Result<(), ExtractError> {
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader | EntryType::XHeader) {
            return Ok(());
        }
        let path = within(&entry.path().map_err(ExtractError::Read)?)?;
        if path.as_os_str().is_empty() {
            return self.describe(&path, &mut entry);
        }
        let (folder, name) = split(&path)?;
        let at = self.folder(folder)?;
        let file = |errno| ExtractError::File { path: path.clone(), errno };
        if name.as_bytes() == OPAQUE {
            return set_attribute(&at, OPAQUE_ATTRIBUTE, b"y").map_err(file);
        }
        if let Some(hidden) = name.as_bytes().strip_prefix(WHITEOUT) {
            // Notes of an old kind of layers.
            if hidden.starts_with(WHITEOUT) {
                return Ok(());
            }
            let hidden = OsStr::from_bytes(hidden);
            if hidden.is_empty() || hidden == "." || hidden == ".." {
                return Err(ExtractError::Name(path));
            }
            self.clear(&at, hidden, &folder.join(hidden))?;
            // Nothing is below the lowest layer, which may be seen without overlayfs.
            if self.below.is_empty() {
                return Ok(());
            }
            return mknodat(&at, hidden, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0)).map_err(file);
        }
        let is_folder = kind == EntryType::Directory;
        let there = fstatat(&at, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok();
        let stays = there.is_some_and(|there| is_folder && there.st_mode & libc::S_IFMT == libc::S_IFDIR);
        if there.is_some() && !stays {
            self.clear(&at, name, &path)?;
        }
        let header = entry.header();
        match kind {
            EntryType::Directory if stays => {}
            EntryType::Directory => mkdirat(&at, name, Mode::from_bits_truncate(0o700)).map_err(file)?,
            EntryType::Symlink => {
                let to = entry.link_name().map_err(ExtractError::Read)?.unwrap_or_default();
                symlinkat(&*to, &at, name).map_err(file)?;
            }
            EntryType::Link => {
                let to = entry.link_name().map_err(ExtractError::Read)?.unwrap_or_default();
                let to = within(&to)?;
                let (folder, target) = split(&to)?;
                let from = self.find(folder).map_err(file)?;
                // It has all of its properties already.
                return linkat(&from, target, &at, name, AtFlags::empty()).map_err(file);
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                let kind = match kind {
                    EntryType::Char => SFlag::S_IFCHR,
                    EntryType::Block => SFlag::S_IFBLK,
                    _ => SFlag::S_IFIFO,
                };
                let number = |number: io::Result<Option<u32>>| number.ok().flatten().unwrap_or(0).into();
                let device = makedev(number(header.device_major()), number(header.device_minor()));
                mknodat(&at, name, kind, Mode::empty(), device).map_err(file)?;
            }
            // A file, also of the kinds that nobody makes any more.
            _ => {
                let mut made = create(&at, name).map_err(file)?;
                io::copy(&mut entry, &mut made)
                    .map_err(|error| ExtractError::Write { path: path.clone(), error })?;
            }
        }
        self.describe(&path, &mut entry)
    }

    /// Owner, attributes, permissions and time of an entry, in an order in which none takes another away.
    fn describe<R: Read>(&mut self, path: &Path, entry: &mut Entry<'_, R>) -> Result<(), ExtractError> {
        let header = entry.header();
        let number = |number: io::Result<u64>| {
            number.and_then(|number| u32::try_from(number).map_err(|_| io::ErrorKind::InvalidData.into()))
        };
        let (uid, gid) = (number(header.uid()), number(header.gid()));
        let (uid, gid) = (uid.map_err(ExtractError::Read)?, gid.map_err(ExtractError::Read)?);
        let mode = header.mode().map_err(ExtractError::Read)? & 0o7777;
        let time = header.mtime().map_err(ExtractError::Read)?;
        let time = TimeSpec::new(i64::try_from(time).unwrap_or(0), 0);
        let kind = header.entry_type();
        let mut attributes = Vec::new();
        if let Some(extensions) = entry.pax_extensions().map_err(ExtractError::Read)? {
            for extension in extensions {
                let extension = extension.map_err(ExtractError::Read)?;
                let key = extension.key().ok().and_then(|key| key.strip_prefix(ATTRIBUTE));
                let key = key.filter(|key| is_kept(key)).and_then(|key| CString::new(key).ok());
                attributes.extend(key.map(|key| (key, extension.value_bytes().to_vec())));
            }
        }
        let file = |errno| ExtractError::File { path: path.to_owned(), errno };
        let (at, name) = self.place(path).map_err(file)?;
        let name = name.as_os_str();
        let owner = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        fchownat(&at, name, owner.0, owner.1, AtFlags::AT_SYMLINK_NOFOLLOW).map_err(file)?;
        if kind != EntryType::Symlink {
            let mode = Mode::from_bits_truncate(mode);
            fchmodat(&at, name, mode, FchmodatFlags::FollowSymlink).map_err(file)?;
        }
        if matches!(kind, EntryType::Regular | EntryType::Directory | EntryType::Continuous) {
            let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            for (key, value) in attributes {
                let opened = nix::fcntl::openat(&at, name, flags, Mode::empty()).map_err(file)?;
                set_attribute(&opened, &key, &value).map_err(file)?;
            }
        }
        if kind == EntryType::Directory {
            self.times.insert(path.to_owned(), time);
            return Ok(());
        }
        utimensat(&at, name, &time, &time, UtimensatFlags::NoFollowSymlink).map_err(file)
    }

    fn set_time(&self, path: &Path, time: TimeSpec) -> Result<(), ExtractError> {
        let file = |errno| ExtractError::File { path: path.to_owned(), errno };
        match self.place(path) {
            Ok((at, name)) => {
                let flags = UtimensatFlags::NoFollowSymlink;
                // A folder that a later entry has replaced has its time already.
                match utimensat(&at, name.as_os_str(), &time, &time, flags) {
                    Err(Errno::ENOENT) => Ok(()),
                    set => set.map_err(file),
                }
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
            Err(errno) => Err(file(errno)),
        }
    }

    /// The folder of a path and the name in it; of the root itself, that is its `.`.
    fn place(&self, path: &Path) -> nix::Result<(OwnedFd, PathBuf)> {
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => Ok((self.find(folder)?, PathBuf::from(name))),
            _ => Ok((self.find(Path::new(""))?, PathBuf::from("."))),
        }
    }

    /// A folder of the layer.
    fn find(&self, path: &Path) -> nix::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        openat2(&self.root, path, how)
    }

    /// A folder of the layer, made with those above it where they are missing, as the layers below have them.
    fn folder(&mut self, path: &Path) -> Result<OwnedFd, ExtractError> {
        match self.find(path) {
            Err(Errno::ENOENT) => {}
            found => return found.map_err(|errno| ExtractError::File { path: path.to_owned(), errno }),
        }
        let mut there = PathBuf::new();
        for part in path.components() {
            let file = |errno| ExtractError::File { path: path.to_owned(), errno };
            let at = self.find(&there).map_err(file)?;
            there.push(part);
            match mkdirat(&at, part.as_os_str(), Mode::from_bits_truncate(0o755)) {
                Ok(()) => self.look_like_below(&there)?,
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(file(errno)),
            }
        }
        self.find(path).map_err(|errno| ExtractError::File { path: path.to_owned(), errno })
    }

    /// Gives a folder the owner and permissions that it has in the layers below: those of this layer are what is seen.
    fn look_like_below(&mut self, path: &Path) -> Result<(), ExtractError> {
        let seen = self.below.iter().rev().find_map(|layer| fs::symlink_metadata(layer.join(path)).ok());
        let Some(seen) = seen.filter(fs::Metadata::is_dir) else { return Ok(()) };
        let file = |errno| ExtractError::File { path: path.to_owned(), errno };
        let folder = self.find(path).map_err(file)?;
        let owner = (Some(Uid::from_raw(seen.uid())), Some(Gid::from_raw(seen.gid())));
        nix::unistd::fchown(&folder, owner.0, owner.1).map_err(file)?;
        let mode = Mode::from_bits_truncate(seen.permissions().mode() & 0o7777);
        nix::sys::stat::fchmod(&folder, mode).map_err(file)?;
        self.times.insert(path.to_owned(), TimeSpec::new(seen.mtime(), seen.mtime_nsec()));
        Ok(())
    }

    /// Removes what an earlier entry of this layer has put there.
    fn clear(&self, at: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), ExtractError> {
        match unlinkat(at, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(Errno::EISDIR) => {
                let folder = format!("/proc/self/fd/{}", at.as_raw_fd());
                let removed = fs::remove_dir_all(Path::new(&folder).join(name));
                removed.map_err(|error| ExtractError::Write { path: path.to_owned(), error })
            }
            Err(errno) => Err(ExtractError::File { path: path.to_owned(), errno }),
        }
    }
}

/// The attributes that a layer may set: not those by which overlayfs or a security module would be led astray.
fn is_kept(key: &str) -> bool {
    key.starts_with("user.") || key == "security.capability"
}

fn set_attribute(at: &OwnedFd, key: &CStr, value: &[u8]) -> nix::Result<()> {
    // SAFETY: a C string, and as many bytes as there are.
    let set = unsafe { libc::fsetxattr(at.as_raw_fd(), key.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    match Errno::result(set) {
        // A file system without such attributes; programs of the image do without, as they do elsewhere.
        Err(Errno::EOPNOTSUPP) if key != OPAQUE_ATTRIBUTE => Ok(()),
        set => set.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of files, without content.
    fn tar_of(names: &[&str]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for name in names {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            header.set_mode(0o644);
            header.set_uid(nix::unistd::getuid().as_raw().into());
            header.set_gid(nix::unistd::getgid().as_raw().into());
            tar.append_data(&mut header, name, &[][..]).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn the_lowest_layer_has_no_whiteouts() {
        let folder = tempfile::tempdir().unwrap();
        let tar = tar_of(&["a", "b", ".wh.a", ".wh.never"]);
        extract(&mut tar.as_slice(), folder.path(), Vec::new()).unwrap();
        let names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["b"]);
    }

    #[test]
    fn a_file_of_an_artifact_is_made_below_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        for _ in 0..2 {
            let file = new_file(folder.path(), Path::new("./a/b/c")).unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o644);
        }
        assert!(folder.path().join("a/b/c").is_file());
        // A link of a layer leads to no place outside.
        let _ = new_file(folder.path(), Path::new("link/d"));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        for wrong in ["", "..", "a/../../d"] {
            assert!(new_file(folder.path(), Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}
