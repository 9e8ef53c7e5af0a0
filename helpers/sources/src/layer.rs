//! The folder of a source, which `kelson-load` lays over the configuration.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use kelson_load::{TREE_MAX, name_mistake};
use kelson_spec::applied::TreeFile;
use kelson_spec::quote::quoted;
use kelson_sys::removed;

use crate::SourceError;

/// Files may hold secrets, such as passwords in the environment of a service.
const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// Replaces the folder by one of these files; without files there is none.
///
/// # Errors
/// Files that are none of a configuration, or a folder that cannot be written. Then the folder is gone.
pub fn write(folder: &Path, files: &[TreeFile]) -> Result<(), SourceError> {
    let failed = |error| SourceError::Write { path: folder.to_owned(), error };
    removed(fs::remove_dir_all(folder)).map_err(failed)?;
    check(files)?;
    if files.is_empty() {
        return Ok(());
    }
    // It has its name when it is whole.
    let half = folder.with_extension("new");
    let written = removed(fs::remove_dir_all(&half))
        .and_then(|()| files.iter().try_for_each(|file| write_file(&half.join(&file.name), &file.content)));
    written.and_then(|()| fs::rename(&half, folder)).map_err(failed)
}

fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(FOLDER).create(parent)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE).open(path)?;
    file.write_all(content)
}

fn check(files: &[TreeFile]) -> Result<(), SourceError> {
    let mut names = BTreeSet::new();
    for file in files {
        if let Some(mistake) = name_mistake(&file.name) {
            return Err(SourceError::Files(mistake));
        }
        if !names.insert(file.name.as_str()) {
            return Err(SourceError::Files(format!("{} is there twice", quoted(&file.name))));
        }
    }
    let size = files.iter().fold(0_usize, |sum, file| sum.saturating_add(file.content.len()));
    if size > TREE_MAX {
        return Err(SourceError::Files(format!("there are {size} bytes; a source may have {TREE_MAX}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(name: &str, text: &str) -> TreeFile {
        TreeFile { name: name.to_owned(), content: text.as_bytes().to_vec() }
    }

    #[test]
    fn a_later_layer_replaces_the_earlier_as_a_whole() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("sources/disk");
        write(&folder, &[file("machine.yaml", "a: b"), file("services/web.yaml", "x")]).unwrap();
        assert_eq!(fs::read(folder.join("services/web.yaml")).unwrap(), b"x");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&folder), mode(&folder.join("machine.yaml"))), (0o700, 0o600));
        write(&folder, &[file("machine.yaml", "c: d")]).unwrap();
        assert!(!folder.join("services").exists());
        write(&folder, &[]).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn what_is_no_configuration_leaves_nothing() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("disk");
        let twice = [file("machine.yaml", ""), file("machine.yaml", "")];
        let large = [TreeFile { name: "machine.yaml".to_owned(), content: vec![b' '; TREE_MAX + 1] }];
        for (files, what) in [
            (&[file("../up", "")][..], "is no file of a configuration"),
            (&twice, "\"machine.yaml\" is there twice"),
            (&large, "a source may have"),
        ] {
            write(&folder, &[file("machine.yaml", "a: b")]).unwrap();
            let error = write(&folder, files).unwrap_err().to_string();
            assert!(error.contains(what) && !folder.exists(), "{error}");
        }
    }
}
