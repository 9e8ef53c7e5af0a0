//! Files that are replaced whole.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::removed;

/// Gives the file `path` these bytes, by way of the file `new` on the same file system. A power cut leaves the old file or
/// the new one.
///
/// # Errors
/// Those of the disk. The old file stays, and nothing stays at `new`.
pub fn replace(path: &Path, new: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let write = || {
        // One that was left, or that somebody else has put there: a link may lead anywhere.
        removed(fs::remove_file(new))?;
        let mut file = File::options().write(true).create_new(true).mode(mode).open(new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(new, path)?;
        // Until its folder is on the disk a power cut would bring the old one back.
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    write().inspect_err(|_| drop(fs::remove_file(new)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let folder = std::env::temp_dir().join(format!("kelson-replace-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, new) = (folder.join("file"), folder.join("file.new"));
        fs::write(&new, "what a write that was broken off has left").unwrap();
        for text in ["one", "two"] {
            replace(&path, &new, 0o600, text.as_bytes()).unwrap();
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), new.exists()), (text, false));
        }
        let inner = folder.join("folder");
        fs::create_dir(&inner).unwrap();
        let error = replace(&inner, &new, 0o600, b"three").unwrap_err();
        assert_eq!((error.raw_os_error(), new.exists()), (Some(libc::EISDIR), false));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, &new, 0o600, b"four").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_dir_all(&folder).unwrap();
    }
}
