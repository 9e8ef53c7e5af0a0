//! Finding a disk by its name, and waiting for one that the kernel has not found yet.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_devices::find_disk;
use kelson_spec::disk::DiskName;

use crate::failure::at;
use crate::news::{self, DEVICES};

/// The device that `source` names, waited for at most `patience`. So is a name that several disks have: one of them may
/// go.
///
/// # Errors
/// A sentence, when there is no such device by then, or more than one.
pub fn find(source: &str, patience: Duration) -> Result<PathBuf, String> {
    wait(source, patience, || look(source))
}

/// As [`find`], and opened: a drive may have no medium yet.
///
/// # Errors
/// As [`find`].
pub fn open(source: &str, patience: Duration) -> Result<(PathBuf, File), String> {
    wait(source, patience, || {
        let device = look(source)?;
        let file = File::open(&device).map_err(|error| at(&device, error))?;
        Ok((device, file))
    })
}

fn wait<T>(source: &str, patience: Duration, look: impl Fn() -> Result<T, String>) -> Result<T, String> {
    news::wait(DEVICES, patience, look)
        .map_err(|why| format!("no disk {source} has come within {} s: {why}", patience.as_secs()))
}

fn look(source: &str) -> Result<PathBuf, String> {
    match DiskName::parse(source) {
        Some(DiskName::Named(kind, name)) => find_disk(kind, name).map_err(|error| error.to_string()),
        _ if Path::new(source).exists() => Ok(source.into()),
        _ => Err("there is no such path".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_there_is_found_at_once_and_one_that_is_not_is_said() {
        assert_eq!(find("/dev/null", Duration::ZERO), Ok(PathBuf::from("/dev/null")));
        let error = find("LABEL=no-such-disk", Duration::ZERO).unwrap_err();
        assert!(
            error.starts_with("no disk LABEL=no-such-disk has come within 0 s: there is no such disk"),
            "{error}"
        );
        let error = find("/dev/no-such", Duration::ZERO).unwrap_err();
        assert_eq!(error, "no disk /dev/no-such has come within 0 s: there is no such path");
    }
}
