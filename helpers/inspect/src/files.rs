//! The entries of a folder.

use kelson_sys::ordered;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kelson_proto::v1::File;
use kelson_spec::quote::error_text;
use prost_types::Timestamp;

use crate::answer::Unanswered;

/// A path as somebody wrote it.
///
/// # Errors
/// When it is relative: there is no folder to which it could be.
pub fn absolute(path: &str) -> Result<&Path, Unanswered> {
    if !path.starts_with('/') || path.contains('\0') {
        return Err(Unanswered::Unfit(format!("{path:?} is not an absolute path; write such as /etc/hosts")));
    }
    Ok(Path::new(path))
}

/// One thing below a place, and what became of looking at it.
pub struct Found {
    /// Below the place; empty: that itself.
    pub name: PathBuf,
    pub at: PathBuf,
    pub metadata: io::Result<Metadata>,
}

/// Goes through a folder: each folder before what is in it, by name. It stays on one file system and follows no link.
pub struct Walk {
    open: Vec<(PathBuf, PathBuf)>,
    recursive: bool,
    device: u64,
    /// Those that could not be gone into.
    pub troubles: Vec<(PathBuf, io::Error)>,
}

impl Walk {
    /// # Errors
    /// When the folder cannot be read.
    pub fn new(folder: &Path, recursive: bool) -> io::Result<Walk> {
        let device = fs::metadata(folder)?.dev();
        let mut walk = Walk { open: Vec::new(), recursive, device, troubles: Vec::new() };
        walk.go_into(folder, Path::new(""))?;
        Ok(walk)
    }

    fn go_into(&mut self, folder: &Path, name: &Path) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.push(entry?.file_name());
        }
        // The last is taken first.
        ordered::sort_by(&mut names, |a, b| b.cmp(a));
        self.open.extend(names.into_iter().map(|last| (name.join(&last), folder.join(&last))));
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        let (name, at) = self.open.pop()?;
        let metadata = fs::symlink_metadata(&at);
        let enters =
            metadata.as_ref().is_ok_and(|metadata| metadata.is_dir() && metadata.dev() == self.device);
        if self.recursive
            && enters
            && let Err(error) = self.go_into(&at, &name)
        {
            self.troubles.push((name.clone(), error));
        }
        Some(Found { name, at, metadata })
    }
}

/// Reads the file that `path` leads to, or the files in it where it is a folder.
///
/// # Errors
/// When there is no such path, or it cannot be read.
pub fn read(path: &str, recursive: bool) -> Result<Box<dyn Iterator<Item = File>>, Unanswered> {
    let place = absolute(path)?;
    let failed = |error: io::Error| Unanswered::path(path, &error);
    let metadata = fs::metadata(place).or_else(|error| fs::symlink_metadata(place).map_err(|_| error));
    let metadata = metadata.map_err(failed)?;
    if !metadata.is_dir() {
        let found =
            Found { name: PathBuf::new(), at: place.to_owned(), metadata: fs::symlink_metadata(place) };
        return Ok(Box::new(std::iter::once(file(found))));
    }
    let mut walk = Walk::new(place, recursive).map_err(failed)?;
    Ok(Box::new(std::iter::from_fn(move || {
        let mut file = file(walk.next()?);
        if let Some((_, error)) = walk.troubles.pop() {
            file.trouble = error_text(&error);
        }
        Some(file)
    })))
}

fn file(found: Found) -> File {
    let name = found.name.into_os_string().into_vec();
    let metadata = match found.metadata {
        Ok(metadata) => metadata,
        Err(error) => return File { name, trouble: error_text(&error), ..File::default() },
    };
    let link =
        if metadata.is_symlink() { fs::read_link(&found.at).unwrap_or_default() } else { PathBuf::new() };
    let device = metadata.rdev();
    File {
        name,
        mode: metadata.mode(),
        uid: metadata.uid(),
        gid: metadata.gid(),
        size: metadata.size(),
        modified: Some(Timestamp {
            seconds: metadata.mtime(),
            nanos: i32::try_from(metadata.mtime_nsec()).unwrap_or(0),
        }),
        link: bytes(link.as_os_str()),
        trouble: String::new(),
        major: libc::major(device),
        minor: libc::minor(device),
    }
}

fn bytes(text: &OsStr) -> Vec<u8> {
    text.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::system::testing::Played;

    fn names(path: &Path, recursive: bool) -> Vec<String> {
        let files = read(path.to_str().unwrap(), recursive).unwrap();
        files.map(|file| String::from_utf8(file.name).unwrap()).collect()
    }

    #[test]
    fn a_folder_by_name_and_all_below_it() {
        let played = Played::new(&[("f/b/two", "22"), ("f/b/one", "1"), ("f/a", ""), ("f/c", "")]);
        symlink("/nowhere", played.path("f/d")).unwrap();
        symlink("b", played.path("f/e")).unwrap();
        let folder = played.path("f");
        assert_eq!(names(&folder, false), ["a", "b", "c", "d", "e"]);
        assert_eq!(names(&folder, true), ["a", "b", "b/one", "b/two", "c", "d", "e"]);
        assert_eq!(
            names(&played.path("f/e"), false),
            ["one", "two"],
            "a link to a folder is asked for by name"
        );
        let files: Vec<File> = read(folder.to_str().unwrap(), true).unwrap().collect();
        assert_eq!((files[3].size, files[5].link.as_slice()), (2, &b"/nowhere"[..]));
        let alone: Vec<File> = read(played.path("f/d").to_str().unwrap(), false).unwrap().collect();
        assert_eq!((alone.len(), alone[0].name.len(), alone[0].mode & libc::S_IFMT), (1, 0, libc::S_IFLNK));
    }

    #[test]
    fn what_is_not_there_or_relative_is_refused() {
        let said = |path| read(path, false).err().unwrap();
        assert!(matches!(said("/no/where"), Unanswered::Missing(_)));
        assert!(matches!(said("etc"), Unanswered::Unfit(_)));
        assert!(matches!(said(""), Unanswered::Unfit(_)));
        assert!(matches!(said("/a\0b"), Unanswered::Unfit(_)));
    }

    #[test]
    fn devices_have_their_numbers() {
        let null = read("/dev/null", false).unwrap().next().unwrap();
        assert_eq!((null.major, null.minor, null.mode & libc::S_IFMT), (1, 3, libc::S_IFCHR));
    }
}
