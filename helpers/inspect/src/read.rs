//! The bytes of a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use kelson_proto::v1::ReadFileResponse;

use crate::answer::{Answer, Unanswered};
use crate::files::absolute;

/// Bytes of one piece.
pub const PIECE: usize = 32 << 10;

/// Opens a regular file, and nothing else: to open a device can do things, and a FIFO would wait for somebody.
///
/// # Errors
/// As the system says, or `InvalidInput` when it is something else.
pub fn open(path: &Path) -> io::Result<File> {
    let regular = |metadata: fs::Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a regular file")),
    };
    regular(fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    regular(file.metadata()?)?;
    Ok(file)
}

/// # Errors
/// When there is no such path, or it is no file, or cannot be read to its end.
pub fn read(path: &str, answer: &mut Answer<'_>) -> Result<(), Unanswered> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            Unanswered::Unfit(format!("{path:?} is not a regular file; ls shows what it is"))
        }
        _ => Unanswered::path(path, &error),
    };
    let mut file = open(absolute(path)?).map_err(failed)?;
    let mut piece = vec![0; PIECE];
    loop {
        let length = match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        answer.message(&ReadFileResponse { data: piece.get(..length).unwrap_or_default().to_vec() })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::testing::messages;
    use crate::system::testing::Played;

    fn content(path: &str) -> Result<Vec<u8>, Unanswered> {
        let pieces: Vec<ReadFileResponse> = messages(|answer| read(path, answer))?;
        Ok(pieces.into_iter().flat_map(|piece| piece.data).collect())
    }

    #[test]
    fn bytes_as_they_are() {
        let played = Played::new(&[("empty", "")]);
        let bytes: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
        played.write("big", &bytes);
        assert_eq!(content(played.path("big").to_str().unwrap()).unwrap(), bytes);
        assert_eq!(content(played.path("empty").to_str().unwrap()).unwrap(), b"");
        assert!(content("/proc/self/status").unwrap().starts_with(b"Name:"), "a file of proc says no size");
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let played = Played::new(&[("f/x", "")]);
        let fifo = played.path("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in ["/dev/null", fifo.to_str().unwrap(), played.path("f").to_str().unwrap(), "relative"] {
            assert!(matches!(content(path), Err(Unanswered::Unfit(_))), "{path}");
        }
        assert!(matches!(content("/no/where"), Err(Unanswered::Missing(_))));
    }
}
