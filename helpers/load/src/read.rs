//! Reading a file that anybody may have put there: never waits, never opens a device, never reads without a bound.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use kelson_spec::quote::error_text;

/// The most that a configuration file may hold, in bytes.
pub const MAX_FILE: u64 = 1 << 20;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("this is {0}; a regular file is needed")]
    NotRegular(&'static str),
    #[error("the file is larger than {} bytes, which is more than is read", .0)]
    TooBig(u64),
    #[error("the file cannot be read: {}", error_text(.0))]
    Io(#[from] io::Error),
    /// Line and column of the first byte that is wrong, counted from 1.
    #[error("the byte {byte:#04x} here is not UTF-8; save the file as UTF-8")]
    NotUtf8 { line: u32, column: u32, byte: u8 },
}

/// Whether a file of this name is read as YAML, or named as a mistake.
pub fn is_yaml(name: &str) -> bool {
    [".yaml", ".yml"].iter().any(|end| name.ends_with(end))
}

/// Reads a regular file of at most `limit` bytes, through symbolic links.
///
/// # Errors
/// When it is something else, too big, or the system refuses.
pub fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    // Asked before it is opened: to open a device can do things (a watchdog starts).
    check(&fs::metadata(path)?, limit)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    check(&metadata, limit)?;
    read_all(file, metadata.len(), limit)
}

/// Reads a regular file of at most `limit` bytes as text.
///
/// # Errors
/// As [`bytes`], and when it is not UTF-8.
pub fn utf8(path: &Path, limit: u64) -> Result<String, ReadError> {
    String::from_utf8(bytes(path, limit)?).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let before = String::from_utf8_lossy(bytes.get(..good).unwrap_or_default());
        let line_start = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
        ReadError::NotUtf8 {
            line: count(before.matches('\n').count()),
            column: count(before.get(line_start..).unwrap_or_default().chars().count()),
            byte: bytes.get(good).copied().unwrap_or_default(),
        }
    })
}

fn check(metadata: &fs::Metadata, limit: u64) -> Result<(), ReadError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return if metadata.len() > limit { Err(ReadError::TooBig(limit)) } else { Ok(()) };
    }
    Err(ReadError::NotRegular(if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }))
}

fn read_all(file: File, expected: u64, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut content = Vec::with_capacity(usize::try_from(expected).unwrap_or(0).saturating_add(1));
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > limit {
        return Err(ReadError::TooBig(limit));
    }
    Ok(content)
}
