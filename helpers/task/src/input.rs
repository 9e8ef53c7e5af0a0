//! The standard input of a service: opened for each run, and sent to PID 1, which hands it to the process.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use kelson_helper::task::InputRequest;
use nix::fcntl::OFlag;

use crate::failure::at;
use crate::{hand_over, open_file, terminal};

/// Makes the call of an [`InputRequest`].
///
/// # Errors
/// A sentence that says what failed and why.
pub fn perform(words: &[OsString], control: impl FnOnce() -> OwnedFd) -> Result<String, String> {
    let send = |control: OwnedFd, file: File| hand_over::send(&control, &[file.into()], "standard input");
    match InputRequest::from_arguments(words)? {
        // Its number is taken before anything is opened.
        InputRequest::Open { path } => send(control(), open(&path)?)?,
        InputRequest::TakeTerminal { terminal, uid } => send(control(), terminal::take(&terminal, uid)?)?,
        InputRequest::LeaveTerminal { terminal, uid } => terminal::leave(&terminal, uid)?,
    }
    Ok(String::new())
}

/// Opens it to be read. Of a FIFO this is a writer too: otherwise its reader would find the end before another writer comes.
fn open(path: &Path) -> Result<File, String> {
    let file = open_file::open(path, OFlag::O_NONBLOCK, false).map_err(|error| at(path, error))?;
    let kind = file.metadata().map_err(|error| at(path, error))?.file_type();
    if kind.is_dir() {
        return Err(at(path, "it is a folder, which cannot be read as input"));
    }
    let file = match kind.is_fifo() {
        // This very FIFO, whatever is at the path by now.
        true => {
            let held = format!("/proc/self/fd/{}", file.as_raw_fd());
            open_file::open(Path::new(&held), OFlag::empty(), true).map_err(|error| at(path, error))?
        }
        false => file,
    };
    open_file::block(&file).map_err(|errno| at(path, errno.desc()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use nix::fcntl::{FcntlArg, fcntl};
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn a_file_is_read_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        std::fs::write(&path, "answer\n").unwrap();
        for _ in 0..2 {
            let mut text = String::new();
            open(&path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "answer\n");
        }
    }

    #[test]
    fn a_fifo_is_there_before_its_writers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        mkfifo(&path, Mode::from_bits_truncate(0o600)).unwrap();
        let mut fifo = open(&path).unwrap();
        let flags = OFlag::from_bits_retain(fcntl(&fifo, FcntlArg::F_GETFL).unwrap());
        assert!(!flags.contains(OFlag::O_NONBLOCK));
        for text in ["one", "two"] {
            File::options().write(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
            let mut read = [0; 3];
            fifo.read_exact(&mut read).unwrap();
            assert_eq!(read, text.as_bytes());
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = open(&missing).unwrap_err();
        assert!(
            error.starts_with(&missing.display().to_string()) && error.contains("No such file"),
            "{error}"
        );
        assert!(open(folder.path()).unwrap_err().ends_with("it is a folder, which cannot be read as input"));
    }
}
