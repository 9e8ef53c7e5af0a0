//! The check of an ext4 file system, by the program for it.

use std::path::Path;

use kelson_helper::task::RESTART_NEEDED;

use crate::program;

/// Checks an ext4 file system that is not mounted, or mounted read-only.
pub fn check(device: &Path) -> Result<String, String> {
    let Some(program) = ["fsck.ext4", "e2fsck"].into_iter().find_map(program::find) else {
        return Ok("there is no e2fsck; not checked".to_owned());
    };
    let ended = program::run(&program, &["-p".as_ref(), device.as_os_str()], None)?;
    let (status, said) = (ended.status, ended.last_line());
    match status.code() {
        Some(0) => Ok(said.to_owned()),
        Some(1) => Ok(format!("errors were corrected: {said}")),
        Some(2 | 3) => Err(format!("errors were corrected, and {RESTART_NEEDED}: {said}")),
        _ => Err(format!("{} -p {}: {status}: {said}", program.display(), device.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::Command;

    #[test]
    fn a_clean_and_a_broken_file_system_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        File::create(&disk).unwrap().set_len(4 << 20).unwrap();
        let made = Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4"]).arg(&disk).status().unwrap();
        assert!(made.success());
        assert!(check(&disk).unwrap().contains("clean"));
        std::fs::OpenOptions::new().write(true).open(&disk).unwrap().set_len(2 << 20).unwrap();
        assert!(check(&disk).is_err());
    }
}
