//! Growth of a file system to the size of its device, while it is mounted.

use std::path::Path;

use crate::failure::at;
use crate::program;

/// The words of each program where there is nothing to grow into.
const UNCHANGED: [&str; 2] = ["Nothing to do", "data size unchanged"];

/// Lets the file system grow. A power cut on the way leaves a sound one, which grows at the next boot.
///
/// # Errors
/// A sentence that names what failed.
pub fn grow(device: &Path, target: &Path, fs_type: &str) -> Result<String, String> {
    let (name, operand) = match fs_type {
        "ext4" => ("resize2fs", device),
        "xfs" => ("xfs_growfs", target),
        _ => return Err(at(device, format!("a {fs_type} cannot grow"))),
    };
    let program = program::find(name).ok_or_else(|| format!("the host has no {name}; install it"))?;
    let ended = program::run(&program, &[operand], None)?;
    if !ended.status.success() {
        let why = format!("{}: {}: {}", program.display(), ended.status, ended.last_line());
        return Err(at(operand, why));
    }
    let unchanged = ended.lines().any(|line| UNCHANGED.iter().any(|words| line.contains(words)));
    Ok(if unchanged { String::new() } else { format!("its {fs_type} has grown") })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_file_system_grows_once() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        File::create(&disk).unwrap().set_len(4 << 20).unwrap();
        let made = Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4"]).arg(&disk).status().unwrap();
        assert!(made.success());
        File::options().write(true).open(&disk).unwrap().set_len(8 << 20).unwrap();
        assert_eq!(grow(&disk, folder.path(), "ext4"), Ok("its ext4 has grown".to_owned()));
        assert_eq!(grow(&disk, folder.path(), "ext4"), Ok(String::new()));
        let error = grow(&disk, folder.path(), "vfat").unwrap_err();
        assert!(error.ends_with("a vfat cannot grow"), "{error}");
        std::fs::write(&disk, "no file system").unwrap();
        assert!(grow(&disk, folder.path(), "ext4").unwrap_err().contains("resize2fs: exit status: 1"));
    }
}
