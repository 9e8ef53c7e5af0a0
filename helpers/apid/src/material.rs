//! The certificate files as bytes, and their way from the key holder to the TLS worker.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::arguments::Arguments;
use crate::error::ApidError;

/// The key holder's messages: files, with their length, or a question.
pub const FILES: u8 = b'F';
pub const PING: u8 = b'P';
/// The worker's answers.
pub const READY: u8 = b'R';
pub const CLOSING: u8 = b'C';
pub const ALIVE: u8 = b'A';

/// A certificate with all that stands above it takes some kilobytes.
const LONGEST: u64 = 1 << 20;

/// The contents of the files; PEM, if they are as they should be.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    pub ca: Vec<u8>,
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

/// Tells a file from one that replaced it, and from itself before it was written to.
#[derive(Debug, PartialEq, Eq)]
pub struct Stamp([Option<([u64; 3], [i64; 4])>; 3]);

impl Stamp {
    pub fn of(arguments: &Arguments) -> Stamp {
        let stamp = |path: &Path| {
            let file = path.metadata().ok()?;
            let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
            Some(([file.dev(), file.ino(), file.size()], times))
        };
        Stamp([&arguments.ca, &arguments.certificate, &arguments.key].map(|path| stamp(path)))
    }
}

impl Material {
    /// # Errors
    /// Names the file that cannot be read, or is too long.
    pub fn read(arguments: &Arguments) -> Result<Material, ApidError> {
        Ok(Material {
            ca: read("CA", &arguments.ca)?,
            certificate: read("certificate", &arguments.certificate)?,
            key: read("key", &arguments.key)?,
        })
    }

    /// Each part after its length.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in [&self.ca, &self.certificate, &self.key] {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            bytes.extend(length.to_be_bytes());
            bytes.extend(part);
        }
        bytes
    }

    /// `None`: it is not what [`Material::to_bytes`] made.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Material> {
        let mut part = || {
            let (length, rest) = bytes.split_first_chunk()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (part, rest) = rest.split_at_checked(length)?;
            bytes = rest;
            Some(part.to_vec())
        };
        let material = Material { ca: part()?, certificate: part()?, key: part()? };
        bytes.is_empty().then_some(material)
    }
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, ApidError> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| {
        file.take(LONGEST).read_to_end(&mut bytes)?;
        let longest = usize::try_from(LONGEST).unwrap_or(usize::MAX);
        if bytes.len() < longest { Ok(()) } else { Err(io::Error::from(io::ErrorKind::FileTooLarge)) }
    });
    match read {
        Ok(()) => Ok(bytes),
        Err(source) => Err(ApidError::File { what, path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_arrives_as_it_was_and_a_part_of_it_is_nothing() {
        let material = Material { ca: b"a".to_vec(), certificate: Vec::new(), key: vec![0; 70_000] };
        let bytes = material.to_bytes();
        assert!(Material::from_bytes(&bytes) == Some(material));
        for cut in [0, 3, 4, 5, 9, bytes.len() - 1] {
            assert!(Material::from_bytes(&bytes[..cut]).is_none(), "{cut}");
        }
        assert!(Material::from_bytes(&[&bytes[..], b"x"].concat()).is_none());
    }

    #[test]
    fn a_file_that_is_replaced_or_written_to_or_gone_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let arguments = Arguments::of_files(path("ca"), path("certificate"), path("key"));
        for name in ["ca", "certificate", "key"] {
            std::fs::write(path(name), name).unwrap();
        }
        let first = Stamp::of(&arguments);
        assert_eq!(Stamp::of(&arguments), first);
        std::fs::write(path("new"), "key").unwrap();
        std::fs::rename(path("new"), path("key")).unwrap();
        let second = Stamp::of(&arguments);
        assert_ne!(second, first);
        std::fs::write(path("ca"), "longer").unwrap();
        let third = Stamp::of(&arguments);
        assert_ne!(third, second);
        std::fs::remove_file(path("ca")).unwrap();
        assert_ne!(Stamp::of(&arguments), third);
        let error = Material::read(&arguments).err().unwrap().to_string();
        assert!(error.contains("cannot read the CA") && error.contains("/ca"), "{error}");
        std::fs::write(path("ca"), vec![b'x'; 2 << 20]).unwrap();
        assert!(Material::read(&arguments).is_err());
    }
}
