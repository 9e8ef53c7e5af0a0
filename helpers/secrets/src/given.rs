//! The secrets that sources of the configuration give, and those in the folder of one.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use kelson_spec::secrets::{About, LONGEST_VALUE, MOST_OF_SOURCE, is_name, source_folder};
use kelson_spec::sources::{self, SourceKind};
use libc::{O_NOFOLLOW, O_NONBLOCK};

use crate::SecretError;
use crate::folder::{file_names, names_in};
use crate::sealed::Opened;

/// A secret of a source. Nothing shows its value.
#[derive(PartialEq, Eq)]
pub struct Given {
    pub name: String,
    pub value: Vec<u8>,
}

/// The secrets in a folder: each file is one, but those that are hidden. A folder that is not there has none.
///
/// # Errors
/// A name that is none of a secret, or a file that cannot be read or is too long.
pub fn read_folder(folder: &Path) -> Result<Vec<Given>, SecretError> {
    let mut names = file_names(folder)?;
    names.retain(|name| !name.starts_with('.'));
    if names.len() > MOST_OF_SOURCE {
        return Err(SecretError::TooMuch);
    }
    let given = names.into_iter().map(|name| {
        if !is_name(&name) {
            return Err(SecretError::Name(name));
        }
        let value = read_file(&folder.join(&name))?.0;
        if value.len() > LONGEST_VALUE { Err(SecretError::TooLong(name)) } else { Ok(Given { name, value }) }
    });
    given.collect()
}

/// The names of all secrets that sources gave.
pub(crate) fn names(runtime: &Path) -> Result<Vec<String>, SecretError> {
    let sources = runtime.join(sources::FOLDER);
    let names = SourceKind::ALL.into_iter().map(|kind| names_in(&source_folder(&sources, kind)));
    names.collect::<Result<Vec<_>, _>>().map(|names| names.concat())
}

/// A secret that a source gave.
pub(crate) fn read(kind: SourceKind, file: &Path) -> Result<Opened, SecretError> {
    let (value, set_at) = read_file(file)?;
    let source = kind.name().to_owned();
    let about = About { size: value.len() as u64, set_at, author: String::new(), source };
    Ok(Opened { about, value })
}

/// By one more byte a value is seen to be too long.
fn read_file(path: &Path) -> Result<(Vec<u8>, SystemTime), SecretError> {
    let read = || {
        // A disk may have a link, or a pipe, under the name of a secret.
        let file = File::options().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(std::io::Error::other("it is no regular file"));
        }
        let mut value = Vec::new();
        file.take((LONGEST_VALUE as u64).saturating_add(1)).read_to_end(&mut value)?;
        Ok((value, found.modified()?))
    };
    read().map_err(SecretError::at(path))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_has_a_secret_in_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(read_folder(&path("none")).unwrap().is_empty());
        fs::write(path("db"), "hush\n").unwrap();
        fs::write(path(".hidden file"), "x").unwrap();
        let found = read_folder(folder.path()).unwrap();
        assert!(found == [Given { name: "db".to_owned(), value: b"hush\n".to_vec() }]);
        let error = || read_folder(folder.path()).err().unwrap().to_string();
        symlink("/etc/passwd", path("link")).unwrap();
        assert!(error().contains("link: "), "{}", error());
        fs::remove_file(path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        assert!(error().ends_with("folder: it is no regular file"), "{}", error());
        fs::remove_dir(path("folder")).unwrap();
        fs::write(path("my key"), "x").unwrap();
        assert!(error().starts_with("\"my key\" is not the name of a secret"), "{}", error());
    }
}
