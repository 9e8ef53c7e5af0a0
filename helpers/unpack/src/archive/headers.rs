//! The headers of a tar, one block at a time.
//!
//! Containerd unpacks a layer in the end, with the tar reader of Go. A checker that reads anything otherwise
//! than that reader would be a hole. So this follows Go where tars may be read in two ways: a long name of
//! GNU's goes before one of pax, links and directories have no data whatever their size says, and a pax
//! `size` goes before the header's.

use std::borrow::Cow;

use thiserror::Error;

pub(super) const BLOCK: usize = 512;

/// Bytes of a long name or of pax records that are held.
const MAX_EXTENSION: u64 = 1 << 20;
/// Bytes of a name or a link target: `PATH_MAX`.
const MAX_NAME: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HeaderError {
    #[error("no tar header at byte {0}: its checksum does not fit")]
    Checksum(u64),
    #[error("the tar header at byte {0} has a size that is no number")]
    Size(u64),
    #[error(
        "the tar header at byte {0} is followed by {1} bytes of names and attributes, at most {MAX_EXTENSION} are taken"
    )]
    LongExtension(u64, u64),
    #[error("the tar header at byte {0} has extended attributes that are broken")]
    Extension(u64),
    #[error(
        "the tar entry at byte {0} has a name or a link target of {1} bytes, at most {MAX_NAME} are taken"
    )]
    LongName(u64, usize),
    #[error(
        "the tar entry {1} at byte {0} is a sparse file, which no image holds: make the archive without sparse files"
    )]
    Sparse(u64, String),
    #[error("the tar ends its entries at byte {0} with one block of zeros, two would be right")]
    End(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    HardLink,
    Symlink,
    Directory,
    /// A device or a named pipe.
    Node,
    Other(u8),
}

/// A file of the tar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    /// Of links.
    pub(super) target: Vec<u8>,
    /// Bytes of data that follow, without the padding.
    pub(super) size: u64,
}

/// The meaning of a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many bytes follow, padded, which belong to [`Headers::extension`].
    Extension(u64),
    /// So many bytes follow, padded, which say nothing here.
    Skip(u64),
    Entry(Entry),
    /// The first of two blocks of zeros.
    HalfEnd,
    End,
}

#[derive(Debug, Clone, Copy)]
enum Extension {
    Name,
    Target,
    Pax,
}

/// Bytes with their padding to whole blocks; `None`: no file system holds that much.
pub(super) fn padded(size: u64) -> Option<u64> {
    i64::try_from(size).ok().and_then(|_| size.checked_next_multiple_of(BLOCK as u64))
}

/// The state between headers: long names that wait for their entry.
#[derive(Default)]
pub(super) struct Headers {
    half_end: bool,
    expected: Option<Extension>,
    name: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    pax: Pax,
}

#[derive(Default)]
struct Pax {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
}

impl Headers {
    /// Reads the block that begins at byte `at`.
    pub(super) fn block(&mut self, at: u64, block: &[u8; BLOCK]) -> Result<Step, HeaderError> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(if std::mem::replace(&mut self.half_end, true) { Step::End } else { Step::HalfEnd });
        }
        if self.half_end {
            return Err(HeaderError::End(at));
        }
        if !checksum_fits(block) {
            return Err(HeaderError::Checksum(at));
        }
        let size = number(field(block, 124, 12)).ok_or(HeaderError::Size(at))?;
        padded(size).ok_or(HeaderError::Size(at))?;
        let letter = field(block, 156, 1).first().copied().unwrap_or(0);
        let extension = match letter {
            b'L' => Extension::Name,
            b'K' => Extension::Target,
            b'x' => Extension::Pax,
            b'g' => {
                // Go drops what came before it.
                *self = Self::default();
                return Ok(Step::Skip(size));
            }
            _ => return self.entry(at, block, letter, size).map(Step::Entry),
        };
        if size > MAX_EXTENSION {
            return Err(HeaderError::LongExtension(at, size));
        }
        self.expected = Some(extension);
        Ok(Step::Extension(size))
    }

    /// Takes the bytes that [`Step::Extension`] asked for, without their padding; the header began at byte `at`.
    pub(super) fn extension(&mut self, at: u64, bytes: &[u8]) -> Result<(), HeaderError> {
        match self.expected.take() {
            Some(Extension::Name) => self.name = long(bytes),
            Some(Extension::Target) => self.target = long(bytes),
            Some(Extension::Pax) => self.pax = Pax::parse(bytes).ok_or(HeaderError::Extension(at))?,
            None => {}
        }
        Ok(())
    }

    fn entry(&mut self, at: u64, block: &[u8], letter: u8, size: u64) -> Result<Entry, HeaderError> {
        let Self { name, target, pax, .. } = std::mem::take(self);
        let name = name.or(pax.path).unwrap_or_else(|| short_name(block).into_owned());
        let target = target.or(pax.link).unwrap_or_else(|| until_nul(field(block, 157, 100)).to_vec());
        let longest = name.len().max(target.len());
        if longest > MAX_NAME {
            return Err(HeaderError::LongName(at, longest));
        }
        if pax.sparse || letter == b'S' {
            return Err(HeaderError::Sparse(at, shown(&name)));
        }
        let kind = match letter {
            0 if name.ends_with(b"/") => Kind::Directory,
            0 | b'0' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' | b'4' | b'6' => Kind::Node,
            b'5' => Kind::Directory,
            other => Kind::Other(other),
        };
        let size = match kind {
            Kind::File | Kind::Other(_) => pax.size.unwrap_or(size),
            _ => 0,
        };
        Ok(Entry { name, kind, target, size })
    }
}

impl Pax {
    /// Reads records of the form `LENGTH KEY=VALUE\n`. The last of a key counts; an empty value takes the key back.
    fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut pax = Self::default();
        while !bytes.is_empty() {
            let space = bytes.iter().position(|byte| *byte == b' ')?;
            let length: usize = decimal(bytes.get(..space)?)?.try_into().ok()?;
            let record = bytes.get(space.checked_add(1)?..length)?.strip_suffix(b"\n")?;
            bytes = bytes.get(length..)?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            let (key, value) = (record.get(..equals)?, record.get(equals.checked_add(1)?..)?);
            let text = || (!value.is_empty()).then(|| value.to_vec());
            match key {
                b"path" | b"linkpath" if value.contains(&0) => return None,
                b"path" => pax.path = text(),
                b"linkpath" => pax.link = text(),
                b"size" if value.is_empty() => pax.size = None,
                b"size" => pax.size = Some(decimal(value).filter(|size| padded(*size).is_some())?),
                key if key.starts_with(b"GNU.sparse.") => pax.sparse = true,
                _ => {}
            }
        }
        Some(pax)
    }
}

/// A name for people: quoted, without what would harm a terminal, and not too long.
pub(super) fn shown(name: &[u8]) -> String {
    const LONGEST: usize = 256;
    let text = String::from_utf8_lossy(name.get(..LONGEST).unwrap_or(name));
    format!("{text:?}{}", if name.len() > LONGEST { "…" } else { "" })
}

fn field(block: &[u8], from: usize, length: usize) -> &[u8] {
    from.checked_add(length).and_then(|end| block.get(from..end)).unwrap_or_default()
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A long name of GNU's. An empty one is none: Go goes on to the next that may say the name.
fn long(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(until_nul(bytes).to_vec()).filter(|name| !name.is_empty())
}

/// The name in the header, with the prefix that the header's format has.
fn short_name(block: &[u8]) -> Cow<'_, [u8]> {
    let name = until_nul(field(block, 0, 100));
    let prefix = match field(block, 257, 8) {
        // GNU has times there, but old writers, Go's own among them, put a prefix.
        b"ustar  \0" => {
            let is_time = |from| is_time(field(block, from, 12));
            let prefix = until_nul(field(block, 345, 155));
            if is_time(345) && is_time(357) || !prefix.is_ascii() { &[] } else { prefix }
        }
        magic if magic.starts_with(b"ustar\0") => {
            let length = if field(block, 508, 4) == b"tar\0" { 131 } else { 155 };
            until_nul(field(block, 345, length))
        }
        _ => &[],
    };
    if prefix.is_empty() { Cow::Borrowed(name) } else { Cow::Owned([prefix, b"/", name].concat()) }
}

/// The sum of the header's bytes with spaces for the sum itself; old writers summed signed bytes.
fn checksum_fits(block: &[u8]) -> bool {
    let Some(expected) = number(field(block, 148, 8)) else { return false };
    let (mut unsigned, mut signed) = (0_u64, 0_i64);
    for (index, byte) in block.iter().enumerate() {
        let byte = if (148..156).contains(&index) { b' ' } else { *byte };
        unsigned = unsigned.saturating_add(u64::from(byte));
        signed = signed.saturating_add(i64::from(byte.cast_signed()));
    }
    expected == unsigned || u64::try_from(signed) == Ok(expected)
}

/// Octal digits between spaces and zeros, or with the highest bit set the number itself. `None`: neither, or below zero.
fn number(field: &[u8]) -> Option<u64> {
    let (first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // The bit behind it is the sign.
        return match first {
            0x80..=0xbf => rest.iter().try_fold(u64::from(first & 0x3f), |sum, byte| {
                sum.checked_mul(256)?.checked_add(u64::from(*byte))
            }),
            _ => None,
        };
    }
    let text = field.trim_ascii_start();
    let start = text.iter().position(|byte| !matches!(byte, 0 | b' ')).unwrap_or(text.len());
    let digits = until_nul(text.get(start..)?);
    let end = digits.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last.saturating_add(1));
    digits.get(..end)?.iter().try_fold(0_u64, |sum, byte| match byte {
        b'0'..=b'7' => sum.checked_mul(8)?.checked_add(u64::from(byte.wrapping_sub(b'0'))),
        _ => None,
    })
}

/// Whether Go reads a time here. Where it does not it reads a prefix of the name, so this must err as it does: a binary
/// time may lie before 1970 but has no more than 63 bits, and octal digits stand between spaces and zeros alone.
fn is_time(field: &[u8]) -> bool {
    match field.split_first() {
        None | Some((0, _)) => true,
        Some((first, rest)) if first & 0x80 != 0 => {
            let sign = if first & 0x40 == 0 { 0 } else { 0xff };
            let (high, low) = rest.split_at(rest.len().saturating_sub(8));
            // The bits above 64 repeat the sign, and so does the highest of these.
            let first = (first & 0x7f) | (sign & 0x80);
            first == sign
                && high.iter().all(|byte| *byte == sign)
                && low.first().is_none_or(|byte| byte & 0x80 == sign & 0x80)
        }
        Some(_) => {
            let filling = |byte: &u8| matches!(byte, 0 | b' ');
            let start = field.iter().position(|byte| !filling(byte)).unwrap_or(field.len());
            let end =
                field.iter().rposition(|byte| !filling(byte)).map_or(start, |last| last.saturating_add(1));
            let digits = until_nul(field.get(start..end).unwrap_or_default());
            digits.iter().all(|byte| matches!(byte, b'0'..=b'7'))
        }
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
