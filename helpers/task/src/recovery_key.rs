//! The recovery key of an encrypted disk: as strong as the cipher, and made to be typed.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::failure::at;

/// They lie at the same place on most keyboards: the letters of Yubico's modhex.
const LETTERS: &[u8; 16] = b"cbdefghijklnrtuv";
const BYTES: usize = 32;
/// The letters between two dashes.
const GROUP: usize = 8;
/// The length of the text.
pub const LENGTH: usize = BYTES * 2 + BYTES * 2 / GROUP - 1;

/// Makes sure that a file has a recovery key, and that a power cut does not take it away. A key that is there already stays:
/// a boot was cut off before its disk was encrypted.
///
/// # Errors
/// A sentence, when the file has something else or cannot be written.
pub fn make(file: &Path) -> Result<(), String> {
    match read(file) {
        Ok(_) => return Ok(()),
        Err(_) if fs::symlink_metadata(file).is_err_and(|error| error.kind() == ErrorKind::NotFound) => {}
        Err(why) => return Err(why),
    }
    let key = new()?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let write = || {
        let mut new = File::options().write(true).create_new(true).mode(0o600).open(file)?;
        new.write_all(&key)?;
        new.sync_all()?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error: std::io::Error| at(file, error))
}

/// The key in a file.
///
/// # Errors
/// A sentence, when there is none, or something else.
pub fn read(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let open = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(file);
    let most = LENGTH.saturating_add(1) as u64;
    open.and_then(|file| file.take(most).read_to_string(&mut text)).map_err(|error| at(file, error))?;
    if is_key(&text) { Ok(text) } else { Err(at(file, "this is no recovery key; name another file")) }
}

/// Takes the key away, and does not leave it on the disk as far as that can be done.
///
/// # Errors
/// A sentence, when there is no key, or it stays.
pub fn forget(file: &Path) -> Result<String, String> {
    read(file)?;
    let remove = || {
        let old = File::options().write(true).open(file)?;
        old.write_all_at(&[0; LENGTH], 0)?;
        old.sync_all()?;
        fs::remove_file(file)?;
        File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    remove().map(|()| String::new()).map_err(|error: std::io::Error| at(file, error))
}

fn new() -> Result<Vec<u8>, String> {
    let mut random = [0; BYTES];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut random)
        .map_err(|_| "no random numbers".to_owned())?;
    let letters: Vec<u8> = random
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0xF])
        .filter_map(|half| LETTERS.get(usize::from(half)).copied())
        .collect();
    Ok(letters.chunks(GROUP).collect::<Vec<_>>().join(&b'-'))
}

fn is_key(text: &str) -> bool {
    let groups = || text.split('-');
    text.len() == LENGTH
        && groups().all(|group| group.len() == GROUP && group.bytes().all(|byte| LETTERS.contains(&byte)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_key_is_kept_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data.recovery");
        make(&file).unwrap();
        let key = read(&file).unwrap();
        assert_eq!((key.len(), key.split('-').count()), (71, 8));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        make(&file).unwrap();
        assert_eq!(read(&file).unwrap(), key, "the one of a boot that was cut off");
        forget(&file).unwrap();
        assert!(!file.exists());
        assert!(forget(&file).unwrap_err().contains("No such file"));
        make(&file).unwrap();
        assert_ne!(read(&file).unwrap(), key);
    }

    #[test]
    fn another_file_is_neither_shown_nor_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes");
        let key = String::from_utf8(new().unwrap()).unwrap();
        for text in [
            String::new(),
            "secret".to_owned(),
            format!("{key}\n"),
            // One of the key's own letters need not be in it.
            key.replacen(|_| true, "x", 1),
            key.replace('-', "c"),
        ] {
            fs::write(&file, &text).unwrap();
            for error in [make(&file).unwrap_err(), read(&file).unwrap_err(), forget(&file).unwrap_err()] {
                assert!(error.ends_with("this is no recovery key; name another file"), "{error}");
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        let link = folder.path().join("link");
        fs::write(&file, &key).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(read(&link).is_err() && make(&link).is_err());
    }
}
