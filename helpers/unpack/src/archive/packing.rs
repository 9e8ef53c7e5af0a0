//! How a file is compressed: its first bytes say so, whatever its name.

use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

/// The largest window of zstd that is unpacked, as a power of two: 16 MiB. Every unpack holds its window in memory.
pub(super) const MAX_WINDOW_LOG: u32 = 24;
/// Compressed bytes that are read at once.
const COMPRESSED: usize = 128 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    /// Bytes that are needed to tell.
    pub(super) const MAGIC: usize = 4;

    pub(super) fn of(first: &[u8]) -> Self {
        match first {
            [0x1f, 0x8b, 0x08, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A frame to skip may come first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// The uncompressed bytes of `reader`.
    pub(super) fn unpack<'a>(self, reader: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Self::Plain => Box::new(reader),
            Self::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(COMPRESSED, reader))),
            Self::Zstd => {
                let mut decoder = ZstdDecoder::with_buffer(BufReader::with_capacity(COMPRESSED, reader))?;
                decoder.window_log_max(MAX_WINDOW_LOG)?;
                Box::new(decoder)
            }
        })
    }
}

/// Explains a decompressor's error to an operator.
pub(super) fn compression_text(error: &io::Error) -> String {
    let text = error.to_string();
    if text.contains("too much memory") {
        let most = 1_u32.checked_shl(MAX_WINDOW_LOG.saturating_sub(20)).unwrap_or(0);
        return format!(
            "zstd needs a window of more than {most} MiB for it, at most level 19 without --long would be right"
        );
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends in the middle of the compressed data".to_owned(),
        _ => text,
    }
}
