//! Finding a disk by path, `LABEL=` or `UUID=`, and waiting for one that the kernel has not found yet.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_devices::{Superblock, identify};

use crate::news::{self, DEVICES};

/// The name by which a disk is found.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name<'a> {
    Path(&'a Path),
    Label(&'a str),
    Uuid(&'a str),
}

impl<'a> Name<'a> {
    fn parse(source: &'a str) -> Result<Name<'a>, String> {
        match source.split_once('=') {
            Some(("LABEL", label)) => Ok(Name::Label(label.trim_matches('"'))),
            Some(("UUID", uuid)) => Ok(Name::Uuid(uuid.trim_matches('"'))),
            Some((kind @ ("PARTUUID" | "PARTLABEL" | "ID"), _)) => {
                Err(format!("{kind}= is not supported; use a path, LABEL= or UUID="))
            }
            _ => Ok(Name::Path(Path::new(source))),
        }
    }

    fn is(&self, found: &Superblock) -> bool {
        match self {
            Name::Path(_) => false,
            Name::Label(label) => found.label.as_deref() == Some(label),
            Name::Uuid(uuid) => found.uuid.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(uuid)),
        }
    }
}

/// The device that `source` names, waited for at most `patience`.
///
/// # Errors
/// A sentence, when there is none by then.
pub fn find(source: &str, patience: Duration) -> Result<PathBuf, String> {
    let name = Name::parse(source)?;
    news::wait(DEVICES, patience, || look(&name))
        .ok_or_else(|| format!("no disk {source} has come within {} s", patience.as_secs()))
}

fn look(name: &Name<'_>) -> Option<PathBuf> {
    if let Name::Path(path) = name {
        return path.exists().then(|| path.to_path_buf());
    }
    let mut names: Vec<_> =
        std::fs::read_dir("/sys/class/block").ok()?.flatten().map(|e| e.file_name()).collect();
    names.sort();
    names.into_iter().find_map(|device| {
        let text = device.to_str()?;
        // Loop and RAM disks are made by somebody who knows them; an empty CD drive only costs time.
        if ["loop", "ram", "zram", "sr", "fd"].iter().any(|kind| text.starts_with(kind)) {
            return None;
        }
        let path = Path::new("/dev").join(text.replace('!', "/"));
        identify(&File::open(&path).ok()?).filter(|found| name.is(found)).map(|_| path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        assert_eq!(Name::parse("LABEL=STATE"), Ok(Name::Label("STATE")));
        assert_eq!(Name::parse("UUID=\"ab\""), Ok(Name::Uuid("ab")));
        assert_eq!(Name::parse("/dev/vda1"), Ok(Name::Path(Path::new("/dev/vda1"))));
        assert!(Name::parse("PARTUUID=1").unwrap_err().contains("not supported"));
    }

    #[test]
    fn a_uuid_is_known_in_either_case() {
        let found = Superblock { fs_type: "ext4", label: None, uuid: Some("ab-cd".to_owned()) };
        assert!(Name::Uuid("AB-CD").is(&found));
        assert!(!Name::Label("x").is(&found));
    }

    #[test]
    fn a_device_that_is_there_is_found_at_once_and_one_that_is_not_is_said() {
        assert_eq!(find("/dev/null", Duration::ZERO), Ok(PathBuf::from("/dev/null")));
        let error = find("LABEL=no-such-disk", Duration::ZERO).unwrap_err();
        assert_eq!(error, "no disk LABEL=no-such-disk has come within 0 s");
    }
}
