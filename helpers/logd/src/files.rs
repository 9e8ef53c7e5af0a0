//! The files of one directory: `web.log`, and rotated `web.log.1` (the youngest) and up.
//!
//! Files are opened when they are first written to; of too many, the one that was not used for longest is closed. Each
//! write looks whether the path still leads to the open file: a directory that was deleted is made again, a file that
//! somebody moved away is left to them.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::line::{self, Clock, Line};
use super::store::{Limits, Mark};

/// Open at the same time.
const OPEN: usize = 256;
/// Read at a time while looking for the end.
const BLOCK: usize = 4096;
/// Rotated files that are looked for.
pub const MOST_FILES: u32 = 100;

struct Open {
    file: File,
    device: u64,
    inode: u64,
    length: u64,
    used: u64,
}

/// Files in one directory.
pub struct Files {
    directory: PathBuf,
    open: HashMap<Arc<str>, Open>,
    used: u64,
}

/// How far a write came.
pub struct Written {
    /// Bytes of whole lines that are in files now.
    pub kept: usize,
    pub mark: Option<Mark>,
    pub result: io::Result<()>,
}

/// `web.log`, or `web.log.3`.
pub fn path_of(directory: &Path, service: &str, number: u32) -> PathBuf {
    directory.join(if number == 0 { format!("{service}.log") } else { format!("{service}.log.{number}") })
}

impl Files {
    pub fn new(directory: PathBuf) -> Files {
        Files { directory, open: HashMap::new(), used: 0 }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn close(&mut self, service: &str) {
        self.open.remove(service);
    }

    /// Appends whole lines, rotating where a file would grow beyond its size. A line that could not be
    /// written whole is removed again, so that the file ends with a whole one.
    pub fn append(&mut self, service: &Arc<str>, limits: Limits, bytes: &[u8]) -> Written {
        let mut kept: usize = 0;
        let result = self.append_all(service, limits, bytes, &mut kept);
        if result.is_err() {
            // Opened again next time: the fault may have been with this one.
            let mark = self.mark(service);
            self.open.remove(service);
            return Written { kept, mark, result };
        }
        Written { kept, mark: self.mark(service), result }
    }

    fn mark(&self, service: &str) -> Option<Mark> {
        let open = self.open.get(service)?;
        Some(Mark { device: open.device, inode: open.inode, length: open.length })
    }

    fn append_all(
        &mut self,
        service: &Arc<str>,
        limits: Limits,
        bytes: &[u8],
        kept: &mut usize,
    ) -> io::Result<()> {
        while let Some(rest) = bytes.get(*kept..).filter(|rest| !rest.is_empty()) {
            let length = self.current(service)?.length;
            let room = usize::try_from(limits.max_size.saturating_sub(length)).unwrap_or(usize::MAX);
            let mut piece = rest;
            if rest.len() > room {
                let fits = whole_lines(rest.get(..room).unwrap_or_default());
                if fits == 0 && length > 0 {
                    self.rotate(service, limits.max_files)?;
                    continue;
                }
                // A line longer than a file gets one of its own.
                let first = rest
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .map_or(rest.len(), |end| end.saturating_add(1));
                piece = rest.get(..fits.max(first)).unwrap_or(rest);
            }
            let open = self.current(service)?;
            let (lines, result) = open.write_lines(piece);
            *kept = kept.saturating_add(lines);
            result?;
        }
        Ok(())
    }

    /// The open file, looked after: opened, made, or opened again.
    fn current(&mut self, service: &Arc<str>) -> io::Result<&mut Open> {
        self.used = self.used.wrapping_add(1);
        let path = path_of(&self.directory, service, 0);
        let same = match self.open.get(service) {
            Some(open) => fs::symlink_metadata(&path)
                .is_ok_and(|there| (there.dev(), there.ino()) == (open.device, open.inode)),
            None => false,
        };
        if !same {
            self.open.remove(service);
            if self.open.len() >= OPEN {
                let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(name, _)| name.clone());
                oldest.map(|name| self.open.remove(&name));
            }
            let opened = match Open::new(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir_all(&self.directory)?;
                    Open::new(&path)
                }
                other => other,
            }?;
            self.open.insert(service.clone(), opened);
        }
        let open = self.open.get_mut(service).ok_or(io::ErrorKind::NotFound)?;
        open.used = self.used;
        Ok(open)
    }

    /// Moves each file one number up; the oldest goes.
    fn rotate(&mut self, service: &Arc<str>, max_files: u32) -> io::Result<()> {
        if let Some(full) = self.open.remove(service) {
            // A power cut takes the end of a log: not that of a file behind which another stands already. Where this
            // fails the lines are in memory all the same.
            let _ = full.file.sync_data();
        }
        let path = |number| path_of(&self.directory, service, number);
        let last = max_files.clamp(1, MOST_FILES).saturating_sub(1);
        // More than one is too many only after `maxFiles` became smaller.
        for number in last.max(1)..=MOST_FILES {
            if fs::remove_file(path(number)).is_err() {
                break;
            }
        }
        if last == 0 {
            return fs::remove_file(path(0));
        }
        for number in (1..last).rev() {
            match fs::rename(path(number), path(number.saturating_add(1))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(path(0), path(1))
    }
}

impl Open {
    fn new(path: &Path) -> io::Result<Open> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o640).custom_flags(flags);
        let mut file = options.open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let whole = written_length(&file, found.len())?;
        let mut length = whole;
        if whole < found.len() {
            file.set_len(whole)?;
        }
        let is_torn = !ends_with_a_line(&file, whole)?;
        if is_torn || whole < found.len() {
            let end = after_lost_lines(is_torn);
            file.write_all(&end)?;
            length = length.saturating_add(end.len() as u64);
        }
        Ok(Open { file, device: found.dev(), inode: found.ino(), length, used: 0 })
    }

    /// Gives how many bytes of whole lines were written.
    fn write_lines(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut written: usize = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match self.file.write(rest) {
                Ok(0) => return self.cut(bytes, written, io::ErrorKind::WriteZero.into()),
                Ok(count) => written = written.saturating_add(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.cut(bytes, written, error),
            }
        }
        self.length = self.length.saturating_add(written as u64);
        (written, Ok(()))
    }

    /// Takes a torn line off again.
    fn cut(&mut self, bytes: &[u8], written: usize, error: io::Error) -> (usize, io::Result<()>) {
        let whole = whole_lines(bytes.get(..written).unwrap_or_default());
        self.length = self.length.saturating_add(whole as u64);
        if whole != written {
            // If not even this works, the next opening ends the line.
            let _ = self.file.set_len(self.length);
        }
        (whole, Err(error))
    }
}

/// The length without the zeros at its end. After a power cut a file system may know how long a file was to be, and not
/// what was to stand at its end.
fn written_length(file: &File, mut length: u64) -> io::Result<u64> {
    let mut block = [0; BLOCK];
    while length > 0 {
        let size = usize::try_from(length).unwrap_or(BLOCK).min(BLOCK);
        let block = block.get_mut(..size).unwrap_or_default();
        let from = length.saturating_sub(size as u64);
        file.read_exact_at(block, from)?;
        if let Some(last) = block.iter().rposition(|byte| *byte != 0) {
            return Ok(from.saturating_add(last as u64).saturating_add(1));
        }
        length = from;
    }
    Ok(0)
}

fn ends_with_a_line(file: &File, length: u64) -> io::Result<bool> {
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length.saturating_sub(1))?;
    }
    Ok(last == [b'\n'])
}

/// The bytes that follow where the host went down: the end of a line that was cut off, and a line that
/// reports it.
fn after_lost_lines(is_torn: bool) -> Vec<u8> {
    let mut bytes = if is_torn { b"\n".to_vec() } else { Vec::new() };
    let text = if is_torn { line::TORN } else { line::LOST }.as_bytes();
    Clock::default().append(&mut bytes, Line::note(text));
    bytes
}

/// Up to and with the last newline.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Source;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("kelson-files-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }
        fn read(&self, number: u32) -> String {
            fs::read_to_string(path_of(&self.0, "web", number)).unwrap_or_default()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn append(files: &mut Files, limits: Limits, text: &str) {
        let written = files.append(&"web".into(), limits, text.as_bytes());
        written.result.unwrap();
        assert_eq!(written.kept, text.len());
    }

    #[test]
    fn it_rotates_between_lines_and_keeps_so_many() {
        let folder = Folder::new("rotate");
        let limits = Limits { max_size: 10, max_files: 3 };
        let mut files = Files::new(folder.0.clone());
        append(&mut files, limits, "1111\n2222\n3333\n");
        append(&mut files, limits, "4444\n55555555555555\n66\n");
        assert_eq!(
            (folder.read(0), folder.read(1), folder.read(2)),
            ("66\n".into(), "55555555555555\n".into(), "3333\n4444\n".into())
        );
        assert!(!path_of(&folder.0, "web", 3).exists());
        let one = Limits { max_size: 10, max_files: 1 };
        append(&mut files, one, "77777777\n");
        assert_eq!((folder.read(0), folder.read(1)), ("77777777\n".into(), String::new()));
        assert!(!path_of(&folder.0, "web", 2).exists());
    }

    #[test]
    fn a_torn_line_is_ended_and_told_before_the_next() {
        let folder = Folder::new("torn");
        fs::create_dir_all(&folder.0).unwrap();
        fs::write(path_of(&folder.0, "web", 0), "whole\nto").unwrap();
        let mut files = Files::new(folder.0.clone());
        append(&mut files, Limits { max_size: 1000, max_files: 2 }, "next\n");
        let text = folder.read(0);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), &lines[..2], lines[3]), (4, &["whole", "to"][..], "next"), "{text}");
        let told = line::parse(lines[2].as_bytes()).unwrap();
        assert!(told.source == Source::Note && lines[2].contains("not whole"), "{text}");
        // The marks of readers count it.
        assert_eq!(files.mark("web").unwrap().length, text.len() as u64);
    }

    #[test]
    fn zeros_at_the_end_are_no_lines() {
        let folder = Folder::new("zeros");
        for (text, told) in [("whole\nto", line::TORN), ("whole\n", line::LOST), ("", line::LOST)] {
            fs::create_dir_all(&folder.0).unwrap();
            let zeros = vec![0; BLOCK + 10];
            fs::write(path_of(&folder.0, "web", 0), [text.as_bytes(), &zeros].concat()).unwrap();
            let mut files = Files::new(folder.0.clone());
            append(&mut files, Limits { max_size: 100_000, max_files: 2 }, "next\n");
            let found = folder.read(0);
            assert!(
                !found.contains('\0') && found.starts_with(text) && found.ends_with("\nnext\n"),
                "{found:?}"
            );
            assert!(found.contains(told), "{found:?}");
            assert_eq!(found.lines().count(), text.lines().count() + 2, "{found:?}");
            assert_eq!(files.mark("web").unwrap().length, found.len() as u64);
            fs::remove_dir_all(&folder.0).unwrap();
        }
    }

    #[test]
    fn a_directory_that_vanished_is_made_again() {
        let folder = Folder::new("vanish");
        let limits = Limits { max_size: 1000, max_files: 2 };
        let mut files = Files::new(folder.0.clone());
        append(&mut files, limits, "one\n");
        fs::remove_dir_all(&folder.0).unwrap();
        append(&mut files, limits, "two\n");
        assert_eq!(folder.read(0), "two\n");
        fs::rename(path_of(&folder.0, "web", 0), folder.0.join("moved")).unwrap();
        append(&mut files, limits, "three\n");
        assert_eq!(folder.read(0), "three\n");
    }

    #[test]
    fn many_services_need_few_descriptors() {
        let folder = Folder::new("many");
        let limits = Limits { max_size: 1000, max_files: 2 };
        let mut files = Files::new(folder.0.clone());
        for turn in 0..2 {
            for number in 0..OPEN + 20 {
                let name: Arc<str> = format!("s{number}").into();
                files.append(&name, limits, b"line\n").result.unwrap();
                assert!(files.open.len() <= OPEN, "turn {turn}");
            }
        }
        assert_eq!(fs::read_to_string(folder.0.join("s3.log")).unwrap(), "line\nline\n");
    }

    #[test]
    fn what_is_no_file_is_an_error_and_does_not_hang() {
        let folder = Folder::new("fifo");
        fs::create_dir_all(&folder.0).unwrap();
        nix::unistd::mkfifo(&path_of(&folder.0, "web", 0), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut files = Files::new(folder.0.clone());
        let written = files.append(&"web".into(), Limits { max_size: 10, max_files: 2 }, b"line\n");
        assert_eq!(written.kept, 0);
        written.result.unwrap_err();
    }
}
