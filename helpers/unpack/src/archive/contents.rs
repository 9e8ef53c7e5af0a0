//! The table of contents of a tar: where each file lies.

use std::collections::HashMap;

use super::bounded::MAX_JSON;
use super::error::Trouble;
use super::headers::{BLOCK, Entry, Headers, Kind, Step, padded, shown};
use super::packing::Packing;
use super::tar_reader::TarReader;

/// Headers of an archive: `docker save` writes four a layer.
const MAX_ENTRIES: u64 = 32 << 10;
/// Bytes of all names together.
const MAX_NAMES: usize = 4 << 20;
/// Bytes of the small files that are kept of a compressed archive, so that they need no pass of their own.
const MAX_KEPT: usize = 4 << 20;
/// Links that lead to links.
const MAX_LINKS: u32 = 8;

/// A file of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// Where its bytes begin in the uncompressed tar.
    pub(super) offset: u64,
    pub(super) size: u64,
    /// The packing that its first bytes show.
    pub(super) packing: Packing,
}

enum Item {
    File(Spot),
    /// The normalised name of another.
    Link(String),
}

/// Names are normalised: `./blobs//x` is `blobs/x`. A name that comes twice means the later file, as it would if the
/// archive were unpacked.
pub(super) struct Contents {
    items: HashMap<String, Item>,
    /// Small files that may be JSON, by their offset.
    kept: HashMap<u64, Vec<u8>>,
    /// The archive ended as a tar should.
    pub(super) whole: bool,
}

impl Contents {
    /// Reads all headers. `keep`: a second look costs a pass.
    pub(super) fn read(tar: &mut TarReader<'_>, keep: bool) -> Result<Self, Trouble> {
        let mut contents = Self { items: HashMap::new(), kept: HashMap::new(), whole: false };
        let mut headers = Headers::default();
        let (mut names, mut kept) = (0_usize, 0_usize);
        let mut count = 0_u64;
        loop {
            let (at, mut block) = (tar.at(), [0; BLOCK]);
            match tar.fill(&mut block)? {
                0 => return Ok(contents),
                BLOCK => {}
                read => {
                    return Err(cut_short("a tar header", at, BLOCK as u64, at.saturating_add(read as u64)));
                }
            }
            count = count.saturating_add(1);
            if count > MAX_ENTRIES {
                return Err(Trouble::TooMany { what: "tar entries", most: MAX_ENTRIES });
            }
            let from = tar.at();
            let (name, size) = match headers.block(at, &block)? {
                Step::HalfEnd => continue,
                Step::End => {
                    contents.whole = true;
                    return Ok(contents);
                }
                Step::Skip(size) => ("attributes".to_owned(), size),
                Step::Extension(size) => {
                    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
                    tar.fill(&mut bytes)?;
                    headers.extension(at, &bytes)?;
                    ("a long name".to_owned(), size)
                }
                Step::Entry(entry) => {
                    names = names.saturating_add(entry.name.len()).saturating_add(entry.target.len());
                    if names > MAX_NAMES {
                        return Err(Trouble::TooMany { what: "bytes of names", most: MAX_NAMES as u64 });
                    }
                    contents.take(tar, &entry, keep, &mut kept)?;
                    (shown(&entry.name), entry.size)
                }
            };
            let end = padded(size).and_then(|size| from.checked_add(size)).unwrap_or(u64::MAX);
            let found = tar.go_to(end)?;
            if found < from.saturating_add(size) {
                return Err(cut_short(&name, from, size, found));
            }
        }
    }

    fn take(
        &mut self,
        tar: &mut TarReader<'_>,
        entry: &Entry,
        keep: bool,
        kept: &mut usize,
    ) -> Result<(), Trouble> {
        let name = normal("", &entry.name).ok_or_else(|| Trouble::Outside(shown(&entry.name)))?;
        let offset = tar.at();
        let item = match entry.kind {
            Kind::File => {
                let bytes = self.first(tar, entry.size, keep)?;
                let packing = Packing::of(&bytes);
                if keep && bytes.len() as u64 == entry.size {
                    *kept = kept.saturating_add(bytes.len());
                    self.kept.insert(offset, bytes);
                    self.shrink(kept);
                }
                Item::File(Spot { offset, size: entry.size, packing })
            }
            Kind::Symlink => {
                let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                match normal(folder, &entry.target) {
                    Some(target) => Item::Link(target),
                    None => return Ok(()),
                }
            }
            Kind::HardLink => match normal("", &entry.target) {
                Some(target) => Item::Link(target),
                None => return Ok(()),
            },
            Kind::Directory | Kind::Node | Kind::Other(_) => return Ok(()),
        };
        self.items.insert(name, item);
        Ok(())
    }

    /// The first bytes of a file, or all of one that may be JSON.
    fn first(&self, tar: &mut TarReader<'_>, size: u64, keep: bool) -> Result<Vec<u8>, Trouble> {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(Packing::MAGIC)];
        let read = tar.fill(&mut bytes)?;
        bytes.truncate(read);
        if keep
            && size <= MAX_JSON
            && bytes.trim_ascii_start().first().is_some_and(|byte| b"{[".contains(byte))
        {
            let first = bytes.len();
            bytes.resize(usize::try_from(size).unwrap_or(first).max(first), 0);
            let rest = tar.fill(bytes.get_mut(first..).unwrap_or_default())?;
            bytes.truncate(first.saturating_add(rest));
        }
        Ok(bytes)
    }

    /// Lets the largest go: what leads to images is small.
    fn shrink(&mut self, kept: &mut usize) {
        while *kept > MAX_KEPT {
            let Some((offset, size)) =
                self.kept.iter().map(|(at, bytes)| (*at, bytes.len())).max_by_key(|kept| kept.1)
            else {
                return;
            };
            self.kept.remove(&offset);
            *kept = kept.saturating_sub(size);
        }
    }

    /// The file that is called `name`, which is normalised, links followed.
    pub(super) fn find(&self, name: &str) -> Option<Spot> {
        let mut name = name;
        for _ in 0..MAX_LINKS {
            match self.items.get(name)? {
                Item::File(spot) => return Some(*spot),
                Item::Link(target) => name = target,
            }
        }
        None
    }

    /// The bytes of the file at `offset`, if they were kept.
    pub(super) fn kept(&self, offset: u64) -> Option<&[u8]> {
        self.kept.get(&offset).map(Vec::as_slice)
    }

    /// Nothing small will be asked for any more.
    pub(super) fn forget(&mut self) {
        self.kept = HashMap::new();
    }
}

/// The name `name`, seen from `folder`, from the top of the archive. `None`: it leads out of the archive, or is no text.
pub(super) fn normal(folder: &str, name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    if name.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." if folder.is_empty() => return None,
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

pub(super) fn cut_short(entry: &str, from: u64, size: u64, found: u64) -> Trouble {
    Trouble::CutShort { entry: entry.to_owned(), needed: from.saturating_add(size), found }
}
