//! Making a file system on a disk that is blank, and on no other.

use kelson_devices::identify;

use crate::blank::BlankDisk;
use crate::failure::at;
use crate::program::{self, STANDARD_INPUT};

/// The programs that make file systems: the type, the program, and its arguments before the disk. No argument makes them
/// overwrite anything; that of FAT takes a whole disk only with `-I`.
const MAKERS: [(&str, &str, &[&str]); 3] =
    [("ext4", "mkfs.ext4", &["-q"]), ("xfs", "mkfs.xfs", &["-q"]), ("vfat", "mkfs.vfat", &["-I"])];

/// Makes a file system of this type on the disk that `source` names, if it is blank.
///
/// # Errors
/// A sentence. Before it says that the program failed, nothing was written.
pub fn format(source: &str, fs_type: &str) -> Result<String, String> {
    if fs_type == "swap" {
        return BlankDisk::claim(source)?.make_swap();
    }
    let (_, name, options) = MAKERS
        .into_iter()
        .find(|(kind, ..)| *kind == fs_type)
        .ok_or_else(|| format!("Kelson does not make a {fs_type}"))?;
    let program = program::find(name)
        .ok_or_else(|| format!("{source} is not formatted: the host has no {name}; install it"))?;
    let blank = BlankDisk::claim(source)?;
    let path = blank.path.clone();
    let disk = blank.release()?;
    let arguments = [options, &[STANDARD_INPUT]].concat();
    let ended = program::run(&program, &arguments, Some(&disk))?;
    if !ended.status.success() {
        return Err(at(&path, format!("{}: {}: {}", program.display(), ended.status, ended.last_line())));
    }
    disk.sync_all().map_err(|error| at(&path, error))?;
    match identify(&disk) {
        Some(found) if found.fs_type == fs_type => {
            Ok(format!("{} was blank, and is a new {fs_type}", path.display()))
        }
        _ => Err(at(&path, format!("{} left no {fs_type} on it", program.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_made_is_said() {
        assert_eq!(format("/dev/null", "btrfs"), Err("Kelson does not make a btrfs".to_owned()));
        assert_eq!(format("/dev/null", "ext4"), Err("/dev/null: it is no disk".to_owned()));
        assert!(MAKERS.iter().map(|(kind, ..)| *kind).eq(kelson_spec::machine::Format::TYPES));
    }
}
