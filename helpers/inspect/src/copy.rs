//! A file or a folder as a tar archive.

use std::fs::{self, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kelson_proto::v1::{CopyResponse, copy_response::Response};
use kelson_spec::quote::error_text;
use tar::{Builder, EntryType, Header};

use crate::answer::{Answer, Unanswered};
use crate::files::{Found, Walk, absolute};
use crate::read;

/// Files of proc and sys say that they hold nothing; so much of them is read, in bytes.
const UNKNOWN: u64 = 1 << 20;

/// Where the bytes of the archive go: into pieces, with reports of errors between them.
struct Pieces<'a, 'b> {
    answer: &'a mut Answer<'b>,
    piece: Vec<u8>,
}

impl Pieces<'_, '_> {
    fn send(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let data = std::mem::replace(&mut self.piece, Vec::with_capacity(read::PIECE));
        self.answer.message(&CopyResponse { response: Some(Response::Data(data)) })
    }

    fn trouble(&mut self, text: String) -> io::Result<()> {
        self.answer.message(&CopyResponse { response: Some(Response::Trouble(text)) })
    }
}

impl Write for Pieces<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = read::PIECE.saturating_sub(self.piece.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.piece.extend_from_slice(taken);
        if self.piece.len() >= read::PIECE {
            self.send()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As many bytes as the header has promised, whatever becomes of the file meanwhile.
struct Exactly {
    from: Box<dyn Read>,
    left: u64,
    /// The error on the way; zeros stand in the archive from there on.
    trouble: Option<String>,
}

impl Read for Exactly {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let into = into.get_mut(..most).unwrap_or_default();
        if into.is_empty() {
            return Ok(0);
        }
        let read = if self.trouble.is_some() { Ok(0) } else { self.from.read(into) };
        let length = match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Ok(length) if length > 0 => length,
            ended => {
                let why = match ended {
                    Ok(_) => "became shorter while it was read".to_owned(),
                    Err(error) => error_text(&error),
                };
                self.trouble.get_or_insert(why);
                into.fill(0);
                into.len()
            }
        };
        self.left = self.left.saturating_sub(u64::try_from(length).unwrap_or(0));
        Ok(length)
    }
}

/// # Errors
/// When there is no such path.
pub fn read(path: &str, answer: &mut Answer<'_>) -> Result<(), Unanswered> {
    let place = absolute(path)?;
    let failed = |error: io::Error| Unanswered::path(path, &error);
    let metadata = fs::metadata(place).map_err(failed)?;
    // `/var/log/.` and `/a/..` are folders, too.
    let top = fs::canonicalize(place).map_err(failed)?;
    let top = PathBuf::from(place.file_name().or(top.file_name()).unwrap_or(".".as_ref()));
    let mut builder = Builder::new(Pieces { answer, piece: Vec::new() });
    let is_folder = metadata.is_dir();
    add(&mut builder, &top, place, Ok(metadata))?;
    if is_folder {
        let mut walk = Walk::new(place, true).map_err(failed)?;
        while let Some(Found { name, at, metadata }) = walk.next() {
            add(&mut builder, &top.join(name), &at, metadata)?;
            for (name, error) in std::mem::take(&mut walk.troubles) {
                builder.get_mut().trouble(format!("{}: {}", top.join(name).display(), error_text(&error)))?;
            }
        }
    }
    builder.finish()?;
    builder.get_mut().send()?;
    Ok(())
}

fn add(
    builder: &mut Builder<Pieces<'_, '_>>,
    name: &Path,
    at: &Path,
    metadata: io::Result<Metadata>,
) -> io::Result<()> {
    let trouble = match entry(builder, name, at, metadata) {
        Ok(()) => return Ok(()),
        Err(Left::Out(why)) => why,
        Err(Left::Gone(error)) => return Err(error),
    };
    builder.get_mut().trouble(format!("{}: {trouble}", name.display()))
}

/// Why an entry is not in the archive.
enum Left {
    Out(String),
    /// Nobody listens any more.
    Gone(io::Error),
}

fn entry(
    builder: &mut Builder<Pieces<'_, '_>>,
    name: &Path,
    at: &Path,
    metadata: io::Result<Metadata>,
) -> Result<(), Left> {
    let out = |error: io::Error| Left::Out(error_text(&error));
    let metadata = metadata.map_err(out)?;
    let mut header = Header::new_gnu();
    header.set_mode(metadata.mode() & 0o7777);
    header.set_uid(metadata.uid().into());
    header.set_gid(metadata.gid().into());
    header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
    header.set_size(0);
    if metadata.is_dir() {
        header.set_entry_type(EntryType::Directory);
        return builder.append_data(&mut header, name, io::empty()).map_err(Left::Gone);
    }
    if metadata.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        let target = fs::read_link(at).map_err(out)?;
        return builder.append_link(&mut header, name, target).map_err(Left::Gone);
    }
    if !metadata.is_file() {
        return Err(Left::Out("is a device, a FIFO or a socket, which is not copied".to_owned()));
    }
    let file = read::open(at).map_err(out)?;
    let size = file.metadata().map_err(out)?.len();
    let (from, left): (Box<dyn Read>, u64) = match size {
        0 => {
            let mut bytes = Vec::new();
            file.take(UNKNOWN).read_to_end(&mut bytes).map_err(out)?;
            let left = bytes.len() as u64;
            (Box::new(io::Cursor::new(bytes)), left)
        }
        size => (Box::new(file), size),
    };
    let mut content = Exactly { from, left, trouble: None };
    header.set_size(content.left);
    header.set_entry_type(EntryType::Regular);
    builder.append_data(&mut header, name, &mut content).map_err(Left::Gone)?;
    content.trouble.map_or(Ok(()), |trouble| Err(Left::Out(format!("{trouble}; zeros stand in its place"))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::answer::testing::messages;
    use crate::system::testing::Played;

    /// Names with their contents, and the troubles.
    type Copied = (Vec<(String, String)>, Vec<String>);

    fn copied(path: &str) -> Result<Copied, Unanswered> {
        let (mut bytes, mut troubles) = (Vec::new(), Vec::new());
        for message in messages::<CopyResponse>(|answer| read(path, answer))? {
            match message.response.unwrap() {
                Response::Data(data) => bytes.extend(data),
                Response::Trouble(trouble) => troubles.push(trouble),
            }
        }
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut entries = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_string_lossy().into_owned();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let link = entry.link_name().unwrap().map(|link| format!("-> {}", link.display()));
            entries.push((name, link.unwrap_or(text)));
        }
        Ok((entries, troubles))
    }

    #[test]
    fn a_folder_with_all_below_it() {
        let long = format!("f/{}/{}", "d".repeat(120), "x".repeat(120));
        let played = Played::new(&[("f/b/one", "1"), ("f/a", "text"), (&long, "far")]);
        symlink("/etc/passwd", played.path("f/link")).unwrap();
        nix::unistd::mkfifo(&played.path("f/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::set_permissions(played.path("f/a"), fs::Permissions::from_mode(0o4755)).unwrap();
        let (entries, troubles) = copied(played.path("f").to_str().unwrap()).unwrap();
        let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        let folder = format!("f/{}", "d".repeat(120));
        assert_eq!(names, ["f", "f/a", "f/b", "f/b/one", &folder, &long, "f/link"]);
        assert_eq!((entries[1].1.as_str(), entries[5].1.as_str()), ("text", "far"));
        assert_eq!(entries[6].1, "-> /etc/passwd");
        assert_eq!(troubles, ["f/pipe: is a device, a FIFO or a socket, which is not copied"]);
    }

    #[test]
    fn a_file_alone_and_one_that_says_no_size() {
        let played = Played::new(&[("file", "text"), ("empty", "")]);
        symlink("file", played.path("link")).unwrap();
        for (name, content) in [("file", "text"), ("empty", ""), ("link", "text")] {
            let (entries, troubles) = copied(played.path(name).to_str().unwrap()).unwrap();
            assert_eq!((entries, troubles), (vec![(name.to_owned(), content.to_owned())], vec![]));
        }
        let (entries, _) = copied("/proc/self/status").unwrap();
        assert!(entries[0].1.starts_with("Name:"));
        assert!(matches!(copied("/no/where"), Err(Unanswered::Missing(_))));
    }

    #[test]
    fn a_file_that_shrinks_leaves_a_sound_archive() {
        let mut content = Exactly { from: Box::new(io::Cursor::new(b"abc")), left: 8, trouble: None };
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"abc\0\0\0\0\0");
        assert_eq!(content.trouble.as_deref(), Some("became shorter while it was read"));
        let mut longer = Exactly { from: Box::new(io::repeat(b'x')), left: 3, trouble: None };
        bytes.clear();
        longer.read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes.as_slice(), longer.trouble), (&b"xxx"[..], None));
    }
}
