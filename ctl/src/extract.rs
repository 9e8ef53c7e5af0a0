//! A tar archive of a host, laid out in a folder here.
//!
//! The host is not trusted: it must not write anywhere but below the one name that was asked for. So each
//! entry is looked at before anything is made of it, every folder on the way is opened by itself and never through a
//! symbolic link, devices are not made, and what a file would gain by set-user-id is dropped. A file is written under
//! another name and moved to its place once it is whole.

mod place;

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::rc::Rc;

use tar::{Archive, Entry, EntryType};

use crate::output::escape_bytes;
use place::Parent;
pub use place::Target;

/// The most bytes that describe an entry, long names included.
const HEAD_MAX: u64 = 1 << 20;

/// The result of an extraction.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    pub files: u64,
    pub bytes: u64,
    /// The entries that are missing, and why.
    pub troubles: Vec<String>,
}

/// Why it could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("the archive that the host sends is broken: {0}")]
    Archive(io::Error),
    #[error("cannot write {0}: {1}")]
    Full(String, io::Error),
}

/// An obstacle to one entry, or to all.
#[derive(Debug)]
enum Hurdle {
    Trouble(String),
    Broken(Broken),
}

/// Lays out what the archive holds of `top`, the name that was asked for, at the target.
///
/// # Errors The archive cannot be read on, or there is no room left. Entries that were made until then stay,
/// but no half of a file.
pub fn extract(input: impl Read, top: &OsStr, target: &Target) -> Result<Extracted, Broken> {
    let left = Rc::new(Cell::new(Some(HEAD_MAX)));
    let mut archive = Archive::new(Bounded { input, left: Rc::clone(&left) });
    let mut layout = Layout { top, target, made: HashSet::new(), done: Extracted::default() };
    for entry in archive.entries().map_err(Broken::Archive)? {
        let mut entry = entry.map_err(Broken::Archive)?;
        left.set(None);
        match layout.entry(&mut entry) {
            Ok(()) => {}
            Err(Hurdle::Trouble(text)) => layout.done.troubles.push(text),
            Err(Hurdle::Broken(broken)) => return Err(broken),
        }
        // An unwanted entry is passed over, so that the next bytes are a head again.
        io::copy(&mut entry, &mut io::sink()).map_err(Broken::Archive)?;
        left.set(Some(HEAD_MAX));
    }
    let done = layout.done;
    // Bytes after the archive's own end are of no use, but the host may still send a message behind them.
    drop(io::copy(&mut archive.into_inner(), &mut io::sink()));
    Ok(done)
}

/// Reads no more than is left, where there is a bound: a head without an end would fill the memory.
struct Bounded<R> {
    input: R,
    left: Rc<Cell<Option<u64>>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(left) = self.left.get() else { return self.input.read(buffer) };
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::other("the head of an entry has no end"));
        }
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.input.read(buffer.get_mut(..room).unwrap_or_default())?;
        self.left.set(Some(left - count as u64));
        Ok(count)
    }
}

/// An archive as it is laid out.
struct Layout<'a> {
    top: &'a OsStr,
    target: &'a Target,
    /// The files that came out of this archive: nothing else is linked to.
    made: HashSet<Vec<OsString>>,
    done: Extracted,
}

impl Layout<'_> {
    fn entry<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<(), Hurdle> {
        let name = entry.path_bytes().into_owned();
        let wrong = |why: &str| Hurdle::Trouble(format!("{}: {why}", escape_bytes(&name)));
        let failed = |error: io::Error| wrong(&error.to_string());
        let parent = |path: &[OsString]| self.target.parent(path).map_err(failed);
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let path = self.place(&name).map_err(|why| wrong(&why))?;
        let mode = entry.header().mode().unwrap_or(0o600) & 0o777;
        match kind {
            EntryType::Directory => parent(&path)?.folder(mode).map_err(failed),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let parent = parent(&path)?;
                self.file(entry, &parent, mode, &wrong)?;
                self.made.insert(path);
                Ok(())
            }
            EntryType::Symlink => {
                let link = entry.link_name_bytes().ok_or_else(|| wrong("the link leads nowhere"))?;
                parent(&path)?.symlink(OsStr::from_bytes(&link), self.target.force).map_err(failed)
            }
            EntryType::Link => {
                let link = entry.link_name_bytes().ok_or_else(|| wrong("the link leads nowhere"))?;
                let first = self.place(&link).map_err(|why| wrong(&format!("its link: {why}")))?;
                if !self.made.contains(&first) {
                    return Err(wrong("it is a link to a file that is not in the archive before it"));
                }
                parent(&path)?.link(&parent(&first)?, self.target.force).map_err(failed)?;
                self.made.insert(path);
                Ok(())
            }
            EntryType::Char | EntryType::Block => Err(wrong("a device is not copied")),
            EntryType::Fifo => Err(wrong("a pipe is not copied")),
            _ => Err(wrong("what it is is not known here")),
        }
    }

    fn file<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        parent: &Parent,
        mode: u32,
        wrong: &dyn Fn(&str) -> Hurdle,
    ) -> Result<(), Hurdle> {
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Hurdle::Broken(Broken::Full(parent.shown(), error))
            }
            _ => wrong(&error.to_string()),
        };
        let mut draft = parent.draft(mode, self.target.force).map_err(refused)?;
        let (mut chunk, mut count) = (vec![0; 1 << 16], 0);
        loop {
            let read = match entry.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Hurdle::Broken(Broken::Archive(error))),
            };
            draft.write(chunk.get(..read).unwrap_or_default()).map_err(refused)?;
            count += read as u64;
        }
        if count != entry.size() {
            let short = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(Hurdle::Broken(Broken::Archive(short)));
        }
        draft.finish(entry.header().mtime().unwrap_or_default()).map_err(refused)?;
        self.done.files += 1;
        self.done.bytes += count;
        Ok(())
    }

    /// Where a name of the archive belongs, from the target's folder on.
    fn place(&self, name: &[u8]) -> Result<Vec<OsString>, String> {
        if name.starts_with(b"/") {
            return Err("its name is absolute".to_owned());
        }
        let mut path: Vec<OsString> = Vec::new();
        for part in name.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err("its name leads out of the folder".to_owned()),
                part if part.contains(&0) => return Err("its name is none".to_owned()),
                part => path.push(OsString::from_vec(part.to_vec())),
            }
        }
        match path.first_mut() {
            // An entry that was not asked for must not come: another name could be that of anything in the
            // folder.
            Some(first) if first == self.top => {
                self.target.name.clone_into(first);
                Ok(path)
            }
            _ => Err(format!("it is not below {}, which was asked for", escape_bytes(self.top.as_bytes()))),
        }
    }
}

#[cfg(test)]
mod tests;
