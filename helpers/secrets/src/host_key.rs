//! The key of the host: a file that is made when the first secret is set.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use libc::O_NOFOLLOW;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::SecretError;
use crate::sealed::{KEY_LENGTH, Key};

/// For root, who reads it.
const MODE: u32 = 0o400;
/// By one more a file is seen to be longer.
const MOST: u64 = KEY_LENGTH as u64 + 1;

/// The key in a file. `None`: there is no file.
///
/// # Errors
/// A file that has something else, or is not root's alone.
pub fn read(file: &Path) -> Result<Option<Key>, SecretError> {
    let failed = SecretError::at(file);
    let open = match File::options().read(true).custom_flags(O_NOFOLLOW).open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        open => open.map_err(&failed)?,
    };
    if open.metadata().map_err(&failed)?.mode() & 0o077 != 0 {
        return Err(SecretError::WrongKey(file.to_owned()));
    }
    let mut bytes = Vec::new();
    open.take(MOST).read_to_end(&mut bytes).map_err(&failed)?;
    Key::new(&bytes).map(Some).ok_or_else(|| SecretError::WrongKey(file.to_owned()))
}

/// Makes the key, unless it is there. A power cut leaves the whole key or none.
///
/// # Errors
/// When it cannot be written, or as [`read`].
pub fn make(file: &Path) -> Result<Key, SecretError> {
    if let Some(key) = read(file)? {
        return Ok(key);
    }
    let failed = SecretError::at(file);
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut bytes = [0; KEY_LENGTH];
    SystemRandom::new().fill(&mut bytes).map_err(|_| SecretError::NoRandomness)?;
    let half = file.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        let mut new = File::options().write(true).create(true).truncate(true).mode(MODE).open(&half)?;
        new.write_all(&bytes)?;
        new.sync_all()?;
        // Not a rename: of two that make it at once, the first is right.
        match fs::hard_link(&half, file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
        File::open(folder)?.sync_all()
    };
    let written = write();
    let _ = fs::remove_file(&half);
    written.map_err(failed)?;
    read(file)?.ok_or_else(|| SecretError::WrongKey(file.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::sealed::{Opened, open, seal};

    #[test]
    fn a_key_is_made_once_and_is_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secrets.key");
        assert!(read(&file).unwrap().is_none());
        let sealed = seal(&make(&file).unwrap(), "db", &Opened::now(b"x".to_vec(), "", "")).unwrap();
        assert_eq!(open(&make(&file).unwrap(), "db", &sealed).unwrap().value, b"x");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, MODE);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        let other = folder.path().join("other.key");
        assert!(open(&make(&other).unwrap(), "db", &sealed).is_err(), "each host has its own");
    }

    #[test]
    fn a_file_that_is_no_key_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secrets.key");
        for length in [0, KEY_LENGTH - 1, KEY_LENGTH + 1] {
            fs::write(&file, vec![7; length]).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            assert!(matches!(make(&file), Err(SecretError::WrongKey(_))), "{length}");
        }
        fs::write(&file, [7; KEY_LENGTH]).unwrap();
        assert!(read(&file).unwrap().is_some());
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read(&file), Err(SecretError::WrongKey(_))));
    }
}
