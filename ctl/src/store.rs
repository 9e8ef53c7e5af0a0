//! Files that are there whole, or not at all.
//!
//! Each is written beside its place under another name, readable by its owner alone from the first moment, and moved
//! there once all of it is on the disk. So nobody ever reads half a file, and no key of another's.

use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// For the eyes of its owner.
pub const PRIVATE: u32 = 0o600;
/// For everybody's.
pub const PUBLIC: u32 = 0o644;

/// A file that is to be.
#[derive(Debug)]
pub struct New {
    pub path: PathBuf,
    pub text: String,
    pub mode: u32,
}

/// Writes files that belong together: all, or none. Any step that may fail (rights, room) has failed before
/// the first of them comes to its place, also where `force` lets them take the place of others.
///
/// # Errors
/// One of them is there already, unless `force` is given, or cannot be written.
pub fn create(files: &[New], force: bool) -> Result<(), Failure> {
    let mut places = Vec::new();
    for new in files {
        match fs::symlink_metadata(&new.path) {
            Ok(found) if found.is_dir() => return Err(cannot(&new.path, &"it is a folder")),
            Ok(_) if force => {}
            _ => places.push(Place::take(&new.path)?),
        }
    }
    let drafts: Vec<Draft> = files.iter().map(|new| Draft::of(new, None)).collect::<Result<_, _>>()?;
    for (draft, new) in drafts.into_iter().zip(files) {
        draft.become_file(&new.path)?;
    }
    for place in &mut places {
        place.kept = true;
    }
    Ok(())
}

/// Writes a file, replacing one that exists; a new one is for its owner alone. An existing file keeps its
/// owner and its mode, except that nobody else may read a `private` one. A symbolic link goes on pointing to
/// it.
pub fn replace(path: &Path, text: String, private: bool) -> Result<(), Failure> {
    // Where a link leads to; of one that leads nowhere nothing is known.
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => path.to_owned(),
        Err(error) => return Err(cannot(path, &error)),
    };
    let old = match fs::metadata(&target) {
        Ok(old) if old.is_file() => Some(old),
        Ok(_) => return Err(cannot(path, &"it is no file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(cannot(path, &error)),
    };
    let mode = old.as_ref().map_or(PRIVATE, |old| old.mode() & if private { 0o700 } else { 0o777 });
    let draft = Draft::of(&New { path: target.clone(), text, mode }, old.as_ref())?;
    draft.become_file(&target)
}

fn cannot(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(format!("cannot write {}: {why}", path.display()))
}

/// A name that was free and is ours: an empty file, until ours comes there. Given back if none does.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    kept: bool,
}

impl Place {
    fn take(path: &Path) -> Result<Place, Failure> {
        match OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path) {
            Ok(_) => Ok(Place { path: path.to_owned(), kept: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Failure::Failed(format!(
                "{} is there already and is not overwritten; nothing was written (--force replaces it)",
                path.display()
            ))),
            Err(error) => Err(cannot(path, &error)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.kept {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// A file under another name. Goes away if it is not moved to its place.
#[derive(Debug)]
struct Draft(PathBuf);

impl Draft {
    /// Writes it; it belongs to whom `old` belongs.
    fn of(new: &New, old: Option<&Metadata>) -> Result<Draft, Failure> {
        Draft::write(new, old).map_err(|error| cannot(&new.path, &error))
    }

    fn write(new: &New, old: Option<&Metadata>) -> io::Result<Draft> {
        let name = new.path.file_name().unwrap_or_default().to_string_lossy();
        let mut number = 0;
        let (draft, mut file) = loop {
            let path = new.path.with_file_name(format!(".{name}.{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&path) {
                Ok(file) => break (Draft(path), file),
                // Left behind by a process that had this number once.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => number += 1,
                Err(error) => return Err(error),
            }
        };
        file.write_all(new.text.as_bytes())?;
        let own = file.metadata()?;
        if let Some(old) = old.filter(|old| (old.uid(), old.gid()) != (own.uid(), own.gid())) {
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        // Last: until then it was for nobody else's eyes, of whatever group.
        file.set_permissions(Permissions::from_mode(new.mode))?;
        file.sync_all()?;
        Ok(draft)
    }

    fn become_file(self, path: &Path) -> Result<(), Failure> {
        fs::rename(&self.0, path).map_err(|error| cannot(path, &error))?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Folder;

    /// The contents of a folder: name, mode and text.
    fn all(folder: &Folder) -> Vec<(String, u32, String)> {
        let each = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.unwrap();
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let mode = fs::symlink_metadata(entry.path()).unwrap().mode() & 0o777;
            (entry.file_name().into_string().unwrap(), mode, text)
        };
        let mut all: Vec<_> = fs::read_dir(folder).unwrap().map(each).collect();
        all.sort();
        all
    }

    fn file(name: &str, mode: u32, text: &str) -> (String, u32, String) {
        (name.to_owned(), mode, text.to_owned())
    }

    #[test]
    fn both_or_none() {
        let folder = Folder::new();
        let new_file =
            |name: &str, text: &str, mode| New { path: folder.join(name), text: text.to_owned(), mode };
        let pair = [new_file("a.key", "key", PRIVATE), new_file("a.pem", "pem", PUBLIC)];
        fs::write(folder.join("a.pem"), "another's").unwrap();
        let said = create(&pair, false).unwrap_err().to_string();
        assert!(said.contains("a.pem is there already"), "{said}");
        assert_eq!(all(&folder).len(), 1, "{:?}", all(&folder));
        fs::remove_file(folder.join("a.pem")).unwrap();
        create(&pair, false).unwrap();
        let both = [file("a.key", 0o600, "key"), file("a.pem", 0o644, "pem")];
        assert_eq!(all(&folder), both);
        create(&[new_file("a.key", "new", PRIVATE)], false).unwrap_err();
        assert_eq!(all(&folder), both);
        create(&[new_file("a.key", "new", PRIVATE)], true).unwrap();
        assert_eq!(all(&folder)[0], file("a.key", 0o600, "new"));
        fs::create_dir(folder.join("b.pem")).unwrap();
        let said = create(&[new_file("b.key", "", PRIVATE), new_file("b.pem", "", PUBLIC)], true);
        assert!(said.unwrap_err().to_string().ends_with("b.pem: it is a folder"));
        assert_eq!(all(&folder).len(), 3, "{:?}", all(&folder));
    }

    #[test]
    fn what_is_replaced_keeps_its_mode_and_its_links() {
        let folder = Folder::new();
        let (path, link) = (folder.join("config"), folder.join("link"));
        replace(&path, "1".to_owned(), false).unwrap();
        assert_eq!(all(&folder), [file("config", 0o600, "1")]);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("config", &link).unwrap();
        replace(&link, "2".to_owned(), false).unwrap();
        assert!(link.is_symlink());
        assert_eq!(all(&folder)[0], file("config", 0o640, "2"));
        // Only root can try this.
        let own = fs::metadata(&path).unwrap();
        if std::os::unix::fs::chown(&path, Some(4321), Some(4322)).is_ok() {
            replace(&path, "2".to_owned(), false).unwrap();
            let kept = fs::metadata(&path).unwrap();
            assert_eq!((kept.uid(), kept.gid(), kept.mode() & 0o777), (4321, 4322, 0o640));
            std::os::unix::fs::chown(&path, Some(own.uid()), Some(own.gid())).unwrap();
        }
        replace(&link, "3".to_owned(), true).unwrap();
        assert_eq!(all(&folder)[0], file("config", 0o600, "3"));
        fs::remove_file(&path).unwrap();
        let said = replace(&link, "4".to_owned(), true).unwrap_err().to_string();
        assert!(said.contains("link: No such file"), "{said}");
        let said = replace(&folder, "5".to_owned(), true).unwrap_err().to_string();
        assert!(said.ends_with("it is no file"), "{said}");
        assert_eq!(all(&folder).len(), 1, "nothing is left behind: {:?}", all(&folder));
    }
}
