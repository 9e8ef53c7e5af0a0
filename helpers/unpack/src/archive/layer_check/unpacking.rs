//! The compression of a layer, told by its first bytes and undone as they come.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use zstd::stream::write::Decoder as ZstdDecoder;

use super::checked::LayerError;
use super::entries::Entries;
use crate::archive::packing::{MAX_WINDOW_LOG, Packing, compression_text};

/// Hands the uncompressed bytes to [`Entries`].
pub(super) enum Unpacking {
    /// Too few bytes have come to tell.
    Unknown(Vec<u8>, Box<Entries>),
    Plain(Box<Entries>),
    Gzip(Box<MultiGzDecoder<Entries>>),
    Zstd(Box<ZstdDecoder<'static, Entries>>),
    /// A fault ended it.
    Failed(LayerError),
}

impl Unpacking {
    pub(super) fn new(entries: Entries) -> Self {
        Self::Unknown(Vec::new(), Box::new(entries))
    }

    /// Before the first bytes come.
    pub(super) fn pass_to(&mut self, taker: Box<dyn Write + Send>) {
        if let Self::Unknown(_, entries) = self {
            entries.taker = Some(taker);
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        let done = match self {
            Self::Unknown(first, _) => {
                let missing = Packing::MAGIC.saturating_sub(first.len()).min(bytes.len());
                let (magic, rest) = bytes.split_at(missing);
                first.extend_from_slice(magic);
                if first.len() < Packing::MAGIC {
                    return Ok(());
                }
                self.begin().and_then(|()| self.update(rest))
            }
            Self::Plain(entries) => write(&mut **entries, bytes).map_err(|error| fault(&error, entries)),
            Self::Gzip(decoder) => {
                write(&mut **decoder, bytes).map_err(|error| fault(&error, decoder.get_ref()))
            }
            Self::Zstd(decoder) => {
                write(&mut **decoder, bytes).map_err(|error| fault(&error, decoder.get_ref()))
            }
            Self::Failed(error) => Err(error.clone()),
        };
        if let Err(error) = &done {
            *self = Self::Failed(error.clone());
        }
        done
    }

    /// The compression is known from the first bytes.
    fn begin(&mut self) -> Result<(), LayerError> {
        let nothing = Self::Failed(LayerError::Compression(String::new()));
        let Self::Unknown(first, entries) = std::mem::replace(self, nothing) else { return Ok(()) };
        *self = match Packing::of(&first) {
            Packing::Plain => Self::Plain(entries),
            Packing::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(*entries))),
            Packing::Zstd => {
                let broken = |error: io::Error| LayerError::Compression(compression_text(&error));
                let mut decoder = ZstdDecoder::new(*entries).map_err(broken)?;
                decoder.window_log_max(MAX_WINDOW_LOG).map_err(broken)?;
                Self::Zstd(Box::new(decoder))
            }
        };
        self.update(&first)
    }

    pub(super) fn finish(mut self) -> Result<Entries, LayerError> {
        if let Self::Unknown(..) = self {
            self.begin()?;
        }
        match self {
            Self::Plain(entries) => Ok(*entries),
            Self::Gzip(mut decoder) => match decoder.try_finish() {
                Ok(()) => decoder.finish().map_err(|error| LayerError::Compression(compression_text(&error))),
                Err(error) => Err(fault(&error, decoder.get_ref())),
            },
            Self::Zstd(mut decoder) => match decoder.do_finish() {
                Ok(()) => Ok(decoder.into_inner()),
                Err(error) => Err(fault(&error, decoder.get_ref())),
            },
            Self::Failed(error) => Err(error),
            Self::Unknown(_, entries) => Ok(*entries),
        }
    }
}

fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)
}

/// Chooses the error to report: a mistake of the tar goes before an error of the decompressor that follows
/// from it.
fn fault(error: &io::Error, entries: &Entries) -> LayerError {
    entries.failure.clone().unwrap_or_else(|| LayerError::Compression(compression_text(error)))
}
