//! The uncompressed tar of a layer: its digest, its size and every one of its headers.

use std::io::{self, Write};

use super::checked::{Checked, LayerError};
use super::paths::Paths;
use crate::archive::hasher::Hasher;
use crate::archive::headers::{BLOCK, Headers, Step, padded, shown};

/// Takes the uncompressed bytes of a layer. The first thing that is wrong stays in `failure`.
pub(super) struct Entries {
    hasher: Hasher,
    /// Bytes that have been hashed.
    size: u64,
    space: u64,
    entries: u64,
    headers: Headers,
    paths: Paths,
    state: State,
    pub(super) failure: Option<LayerError>,
    /// Gets the bytes that have been checked.
    pub(super) taker: Option<Box<dyn Write + Send>>,
}

enum State {
    /// A header that has come so far.
    Header(Vec<u8>),
    /// Names and attributes of the header at byte `at`: what has come, and how many bytes belong to it.
    Extension { at: u64, bytes: Vec<u8>, wanted: usize },
    /// Data and padding of an entry, still to come; of it `padding` at the end.
    Data { left: u64, padding: u64, name: Vec<u8> },
    /// The bytes after the end mean nothing, but they are part of the digest.
    End,
}

impl Entries {
    pub(super) fn new(space: u64) -> Self {
        Self {
            hasher: Hasher::default(),
            size: 0,
            space,
            entries: 0,
            headers: Headers::default(),
            paths: Paths::default(),
            state: State::Header(Vec::with_capacity(BLOCK)),
            failure: None,
            taker: None,
        }
    }

    pub(super) fn finish(self) -> Result<Checked, LayerError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let inside = match self.state {
            State::Header(bytes) if bytes.is_empty() => None,
            State::End => None,
            // Writers that do not close their tar leave out the last padding with the blocks of zeros.
            State::Data { left, padding, .. } if left <= padding => None,
            State::Header(_) | State::Extension { .. } => Some("a header".to_owned()),
            State::Data { name, .. } => Some(shown(&name)),
        };
        match inside {
            Some(inside) => Err(LayerError::CutShort { at: self.size, inside }),
            None => Ok(Checked { diff_id: self.hasher.finish(), size: self.size, entries: self.entries }),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        // Where in the tar the bytes that are still to be looked at begin.
        let mut at = self.size;
        self.size = at.saturating_add(bytes.len() as u64);
        self.fits(self.size)?;
        self.hasher.update(bytes);
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = rest.len();
            match &mut self.state {
                State::Header(block) => {
                    fill(block, BLOCK, &mut rest);
                    let end = at.saturating_add(length.saturating_sub(rest.len()) as u64);
                    let Ok(whole) = <&[u8; BLOCK]>::try_from(block.as_slice()) else { return Ok(()) };
                    let step = self.headers.block(end.saturating_sub(BLOCK as u64), whole)?;
                    self.step(end, step)?;
                }
                State::Extension { at, bytes, wanted } => {
                    let whole =
                        padded(*wanted as u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(*wanted);
                    fill(bytes, whole, &mut rest);
                    if bytes.len() == whole {
                        bytes.truncate(*wanted);
                        self.headers.extension(*at, bytes)?;
                        self.state = State::Header(Vec::with_capacity(BLOCK));
                    }
                }
                State::Data { left, .. } => {
                    let skipped = usize::try_from(*left).map_or(length, |left| left.min(length));
                    *left = left.saturating_sub(skipped as u64);
                    rest = rest.get(skipped..).unwrap_or_default();
                    if *left == 0 {
                        self.state = State::Header(Vec::with_capacity(BLOCK));
                    }
                }
                State::End => return Ok(()),
            }
            at = at.saturating_add(length.saturating_sub(rest.len()) as u64);
        }
        Ok(())
    }

    fn pass_on(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        let Some(taker) = &mut self.taker else { return Ok(()) };
        taker.write_all(bytes).map_err(|_| LayerError::Unwanted)
    }

    /// Acts on the header that ends at byte `end`.
    fn step(&mut self, end: u64, step: Step) -> Result<(), LayerError> {
        self.state = match step {
            Step::Extension(size) => State::Extension {
                at: end.saturating_sub(BLOCK as u64),
                bytes: Vec::new(),
                wanted: usize::try_from(size).unwrap_or(usize::MAX),
            },
            Step::Skip(size) => self.data(end, size, Vec::new())?,
            Step::Entry(entry) => {
                self.entries = self.entries.saturating_add(1);
                self.paths.check(&entry)?;
                self.data(end, entry.size, entry.name)?
            }
            Step::HalfEnd => State::Header(Vec::with_capacity(BLOCK)),
            Step::End => State::End,
        };
        if let State::Extension { at, wanted: 0, .. } = self.state {
            self.headers.extension(at, &[])?;
            self.state = State::Header(Vec::with_capacity(BLOCK));
        }
        Ok(())
    }

    /// `size` bytes of data from byte `from` on.
    fn data(&self, from: u64, size: u64, name: Vec<u8>) -> Result<State, LayerError> {
        let left = padded(size).unwrap_or(u64::MAX);
        self.fits(from.saturating_add(left))?;
        Ok(match left {
            0 => State::Header(Vec::with_capacity(BLOCK)),
            left => State::Data { left, padding: left.saturating_sub(size), name },
        })
    }

    /// Whether the disk has room for a layer that goes at least to byte `needed`.
    fn fits(&self, needed: u64) -> Result<(), LayerError> {
        if needed <= self.space { Ok(()) } else { Err(LayerError::Space { needed, space: self.space }) }
    }
}

/// Moves bytes of `from` to the end of `to`, until that has `length` or there are no more.
fn fill(to: &mut Vec<u8>, length: usize, from: &mut &[u8]) {
    let (taken, rest) = from.split_at(length.saturating_sub(to.len()).min(from.len()));
    to.extend_from_slice(taken);
    *from = rest;
}

/// The decompressors push into this.
impl io::Write for Entries {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failure.is_none() {
            self.failure = self.take(bytes).and_then(|()| self.pass_on(bytes)).err();
        }
        match self.failure {
            None => Ok(bytes.len()),
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
