//! The archive as it grows: no file in it is too long, and all of it is not.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use kelson_sys::text::{end_of, start_of};
use tar::{Builder, EntryType, Header};

use crate::output::views;

/// Of one file, in bytes.
pub const FILE_MAX: usize = 4 << 20;
/// Of all files together, before they are packed.
const ALL_MAX: usize = 256 << 20;

/// A file of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub name: String,
    pub bytes: usize,
    /// There was more of it.
    pub cut: bool,
}

/// A part that is not in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub name: String,
    pub why: String,
}

views! {
    Kept: kept { name, bytes, cut }
    Missing: missing { name, why }
}

/// Which end of a file that is too long stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Beginning,
    /// Of what grows, the news.
    End,
}

/// An archive that is being written, under another name. Goes away if it is not finished.
pub struct Pack {
    builder: Builder<GzEncoder<File>>,
    folder: String,
    path: PathBuf,
    draft: PathBuf,
    left: usize,
    now: u64,
    pub files: Vec<Kept>,
}

impl Pack {
    /// One whose files are in `folder`. Only who makes it may read it.
    ///
    /// # Errors
    /// There is such a file already, or it cannot be made.
    pub fn new(path: &Path, folder: &str) -> io::Result<Pack> {
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let draft = path.with_file_name(format!(".kelsonctl-support-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(Pack {
            builder: Builder::new(GzEncoder::new(file, Compression::default())),
            folder: folder.to_owned(),
            path: path.to_owned(),
            draft,
            left: ALL_MAX,
            now,
            files: Vec::new(),
        })
    }

    /// Adds a file, cut to the longest that one may be. False: the archive is full.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub fn add(&mut self, name: &str, text: &str, keep: Keep) -> io::Result<bool> {
        let kept = cut(text, FILE_MAX, keep);
        if kept.len() > self.left {
            return Ok(false);
        }
        self.left -= kept.len();
        self.write(name, kept)?;
        self.files.push(Kept { name: name.to_owned(), bytes: kept.len(), cut: kept.len() < text.len() });
        Ok(true)
    }

    fn write(&mut self, name: &str, text: &str) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_mtime(self.now);
        header.set_size(text.len() as u64);
        self.builder.append_data(&mut header, format!("{}/{name}", self.folder), text.as_bytes())
    }

    /// Ends the archive with its manifest and puts it in its place; how many bytes it has.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub fn finish(mut self, manifest: &str) -> io::Result<u64> {
        self.write("manifest.json", manifest)?;
        self.builder.finish()?;
        let packer = self.builder.get_mut();
        packer.try_finish()?;
        let file = packer.get_mut();
        file.flush()?;
        let bytes = file.metadata()?.len();
        // Unlike a rename a link takes no other file's place. Not all file systems have them.
        match fs::hard_link(&self.draft, &self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                fs::rename(&self.draft, &self.path)?;
            }
            linked => linked?,
        }
        Ok(bytes)
    }
}

impl Drop for Pack {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.draft));
    }
}

/// At most `most` bytes of the text, whole lines where there are any.
fn cut(text: &str, most: usize, keep: Keep) -> &str {
    if text.len() <= most {
        return text;
    }
    match keep {
        Keep::Beginning => {
            let kept = start_of(text, most);
            kept.rfind('\n').map_or(kept, |end| kept.get(..=end).unwrap_or_default())
        }
        Keep::End => {
            let kept = end_of(text, most);
            kept.split_once('\n').map_or(kept, |(_, lines)| if lines.is_empty() { kept } else { lines })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_between_lines() {
        let text = "one\ntwo\nthree\n";
        assert_eq!(cut(text, 20, Keep::End), text);
        assert_eq!(cut(text, 9, Keep::Beginning), "one\ntwo\n");
        assert_eq!(cut(text, 9, Keep::End), "three\n");
        assert_eq!((cut("üüü", 3, Keep::Beginning), cut("üüü", 3, Keep::End)), ("ü", "ü"));
        assert_eq!(cut("a long line\n", 4, Keep::End), "ine\n");
    }

    #[test]
    fn an_archive_that_is_not_finished_is_none() {
        let folder = crate::samples::Folder::new();
        let path = folder.join("a.tar.gz");
        let left = || fs::read_dir(&folder).unwrap().count();
        let mut pack = Pack::new(&path, "a").unwrap();
        assert!(pack.add("x", "text", Keep::End).unwrap());
        pack.left = 3;
        assert!(!pack.add("y", "text", Keep::End).unwrap(), "it is full");
        drop(pack);
        assert_eq!(left(), 0);
        let bytes = Pack::new(&path, "a").unwrap().finish("{}").unwrap();
        assert_eq!((left(), fs::metadata(&path).unwrap().len()), (1, bytes));
        let again = Pack::new(&path, "a").err().map(|error| error.kind());
        assert_eq!((again, left()), (Some(io::ErrorKind::AlreadyExists), 1));
    }
}
