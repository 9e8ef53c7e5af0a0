//! Programs of the host that work on a disk.

use std::ffi::OsStr;
use std::fs::{File, canonicalize};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::failure::at;

const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
/// Leads to the standard input of a program, so that a disk can be given to it by a descriptor.
pub const STANDARD_INPUT: &str = "/proc/self/fd/0";

/// What a program wrote and how it ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Its output, then its errors.
    text: String,
}

impl Ended {
    /// Its lines, but empty ones.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty())
    }

    /// The first line that it wrote; empty: none.
    pub fn first_line(&self) -> &str {
        self.lines().next().unwrap_or_default()
    }

    /// The last line that it wrote; empty: none.
    pub fn last_line(&self) -> &str {
        self.lines().next_back().unwrap_or_default()
    }
}

/// The path of a program; that of busybox knows too little, and does not count. `None`: the host has none.
pub fn find(name: &str) -> Option<PathBuf> {
    let of_busybox = |path: &Path| {
        canonicalize(path).is_ok_and(|path| path.file_name().is_some_and(|name| name == "busybox"))
    };
    FOLDERS
        .into_iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists() && !of_busybox(path))
}

/// Runs a program, with this disk as its standard input if there is one.
///
/// # Errors
/// A sentence, when it could not be started.
pub fn run(program: &Path, arguments: &[impl AsRef<OsStr>], disk: Option<&File>) -> Result<Ended, String> {
    let input = match disk {
        Some(disk) => Stdio::from(disk.try_clone().map_err(|error| at(program, error))?),
        None => Stdio::null(),
    };
    // Its texts are read: by an operator, and by no one in another language.
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        // An initramfs may have left the socket of its udev behind: cryptsetup would wait for an answer of it for ever.
        .env("DM_DISABLE_UDEV", "1")
        .stdin(input)
        .output()
        .map_err(|error| at(program, error))?;
    let text = [output.stdout, output.stderr].concat();
    Ok(Ended { status: output.status, text: String::from_utf8_lossy(&text).into_owned() })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_program_gets_the_disk_as_a_path_that_leads_to_it() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"of the disk\n").unwrap();
        let ended = run(&find("cat").unwrap(), &[STANDARD_INPUT], Some(&file)).unwrap();
        assert!(ended.status.success());
        assert_eq!(ended.last_line(), "of the disk");
        let ended = run(&find("cat").unwrap(), &["/no/such"], None).unwrap();
        assert_eq!(
            (ended.status.code(), ended.last_line()),
            (Some(1), "/usr/bin/cat: /no/such: No such file or directory")
        );
        assert_eq!(find("no-such-program"), None);
    }
}
