//! A tar file, plain or compressed, read forwards.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use super::error::Trouble;
use super::packing::{Packing, compression_text};

/// Bytes that are thrown away at once.
const SCRATCH: usize = 64 << 10;

/// A position in the uncompressed tar. Several tapes of one file do not disturb each other.
pub(super) struct TarReader<'a> {
    at: u64,
    reader: Reader<'a>,
}

enum Reader<'a> {
    Plain { file: &'a File, size: u64 },
    Packed(Box<dyn Read + 'a>),
}

impl<'a> TarReader<'a> {
    pub(super) fn new(file: &'a File, packing: Packing) -> Result<Self, Trouble> {
        let reader = match packing {
            Packing::Plain => Reader::Plain { file, size: file.metadata().map_err(Trouble::Io)?.len() },
            packed => Reader::Packed(packed.unpack(FileReader { file, at: 0 }).map_err(Trouble::Io)?),
        };
        Ok(Self { at: 0, reader })
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Fills `buffer` as far as there are bytes, and says how far.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Trouble> {
        let mut filled = 0_usize;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let read = match &mut self.reader {
                Reader::Plain { file, .. } => file.read_at(rest, self.at),
                Reader::Packed(reader) => reader.read(rest),
            };
            match read {
                Ok(0) => break,
                Ok(read) => {
                    filled = filled.saturating_add(read);
                    self.at = self.at.saturating_add(read as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error().is_some() => return Err(Trouble::Io(error)),
                Err(error) => return Err(Trouble::Compression(compression_text(&error))),
            }
        }
        Ok(filled)
    }

    /// Goes on to byte `to`, which lies ahead, or to the end if that comes first. Says where it is.
    pub(super) fn go_to(&mut self, to: u64) -> Result<u64, Trouble> {
        if let Reader::Plain { size, .. } = self.reader {
            self.at = to.min(size).max(self.at);
            return Ok(self.at);
        }
        let mut scratch = vec![0; SCRATCH];
        while self.at < to {
            let left = usize::try_from(to.saturating_sub(self.at)).unwrap_or(SCRATCH).min(SCRATCH);
            if self.fill(scratch.get_mut(..left).unwrap_or_default())? == 0 {
                break;
            }
        }
        Ok(self.at)
    }
}

/// Reads a file without moving its one position, which threads share.
struct FileReader<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }
}
