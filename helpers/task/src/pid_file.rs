//! The file in which a program that has forked into the background names its main process.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::failure::at;

/// Between two looks at the file.
const PAUSE: Duration = Duration::from_millis(10);

/// More than a number and its newline.
const LONGEST: u64 = 64;

/// Waits until a file names a process.
///
/// # Errors
/// It names none by then.
pub fn read(path: &Path, patience: Duration) -> Result<i32, String> {
    let begun = Instant::now();
    loop {
        match look(path) {
            Ok(pid) => return Ok(pid),
            Err(error) if begun.elapsed() >= patience => return Err(at(path, error)),
            Err(_) => sleep(PAUSE),
        }
    }
}

fn look(path: &Path) -> std::io::Result<i32> {
    let mut text = String::new();
    File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    let pid = text.trim().parse::<i32>().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| Error::new(ErrorKind::InvalidData, "it has no PID"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_alone_is_a_pid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let read =
            || read(&path, Duration::ZERO).map_err(|error| error.replace(&*path.to_string_lossy(), "FILE"));
        assert!(read().unwrap_err().starts_with("FILE: "));
        for (text, found) in [
            ("12\n", Ok(12)),
            (" 7", Ok(7)),
            ("", Err(())),
            ("-1", Err(())),
            ("1 2", Err(())),
            ("x", Err(())),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read().map_err(drop), found, "{text:?}");
        }
        std::fs::write(&path, "x").unwrap();
        assert_eq!(read(), Err("FILE: it has no PID".to_owned()));
    }

    #[test]
    fn a_file_that_comes_later_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let later = std::thread::spawn({
            let path = path.clone();
            move || {
                sleep(Duration::from_millis(50));
                std::fs::write(path, "31\n").unwrap();
            }
        });
        assert_eq!(read(&path, Duration::from_secs(30)), Ok(31));
        later.join().unwrap();
    }
}
