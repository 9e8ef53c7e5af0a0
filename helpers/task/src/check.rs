//! The check of an ext4 file system, by the program for it.

use std::path::Path;
use std::process::Command;

use kelson_helper::task::RESTART_NEEDED;

use crate::failure::at;

/// Checks an ext4 file system that is not mounted, or mounted read-only.
pub fn check(device: &Path) -> Result<String, String> {
    const PROGRAMS: [&str; 3] = ["/sbin/fsck.ext4", "/sbin/e2fsck", "/usr/sbin/e2fsck"];
    let Some(program) = PROGRAMS.into_iter().find(|program| Path::new(program).exists()) else {
        return Ok("there is no e2fsck; not checked".to_owned());
    };
    let output = Command::new(program)
        .arg("-p")
        .arg(device)
        .output()
        .map_err(|error| at(Path::new(program), error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.lines().last().unwrap_or_default().trim();
    match output.status.code() {
        Some(0) => Ok(said.to_owned()),
        Some(1) => Ok(format!("errors were corrected: {said}")),
        Some(2 | 3) => Err(format!("errors were corrected, and {RESTART_NEEDED}: {said}")),
        _ => Err(format!("{program} -p {}: {}: {said}", device.display(), output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

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
