//! The files of an archive, be it a tar or a directory.

use kelson_sys::ordered;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use kelson_image::Digest;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::bounded::MAX_JSON;
use super::contents::{Contents, Spot, cut_short, normal};
use super::error::Trouble;
use super::hasher::Hasher;
use super::image::{Blob, Place};
use super::packing::Packing;
use super::tar_reader::TarReader;

/// Bytes of a blob that are handed on at once.
const BUFFER: usize = 128 << 10;
/// Passes over a compressed archive for JSON that the first pass could not keep.
const MAX_PASSES: u32 = 8;

/// Takes the blobs that [`Archive::read`](super::Archive::read) reads.
pub trait BlobSink {
    type Error;

    /// A blob begins. `false`: it is not wanted any more, and there is no report about it.
    fn begin(&mut self, blob: &Blob) -> Result<bool, Self::Error>;

    /// The next bytes of the blob that has begun, at most 256 KiB.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// The blob was whole, its size and digest are right.
    fn end(&mut self, blob: &Blob) -> Result<(), Self::Error>;
}

pub(super) enum Store {
    Directory(File),
    Tar { file: File, packing: Packing, contents: Contents, passes: AtomicU32 },
}

/// A file that was found: where it is and how large.
pub(super) struct Located {
    pub(super) place: Place,
    pub(super) size: u64,
    pub(super) packing: Packing,
}

/// The side that ended a reading: the archive, or the consumer of the bytes.
pub(super) enum Stop<E> {
    Trouble(Trouble),
    Sink(E),
}

impl<E> From<Trouble> for Stop<E> {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Store {
    pub(super) fn open(path: &Path) -> Result<Self, Trouble> {
        // A named pipe among the archives must not make anybody wait.
        let file = File::options()
            .read(true)
            .custom_flags((OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY).bits())
            .open(path)
            .map_err(Trouble::Io)?;
        let metadata = file.metadata().map_err(Trouble::Io)?;
        if metadata.is_dir() {
            return Ok(Self::Directory(file));
        }
        if !metadata.is_file() {
            return Err(Trouble::NotAFile);
        }
        let mut magic = [0; Packing::MAGIC];
        let read = TarReader::new(&file, Packing::Plain)?.fill(&mut magic)?;
        let packing = Packing::of(magic.get(..read).unwrap_or_default());
        let contents = Contents::read(&mut TarReader::new(&file, packing)?, packing != Packing::Plain)?;
        Ok(Self::Tar { file, packing, contents, passes: AtomicU32::new(0) })
    }

    /// Whether blobs can be read without what lies before them.
    pub(super) fn is_seekable(&self) -> bool {
        !matches!(self, Self::Tar { packing: Packing::Gzip | Packing::Zstd, .. })
    }

    /// The file `name`; `None`: there is none.
    pub(super) fn find(&self, name: &str) -> Result<Option<Located>, Trouble> {
        let Some(name) = normal("", name.as_bytes()) else { return Ok(None) };
        match self {
            Self::Tar { contents, .. } => Ok(contents.find(&name).map(|Spot { offset, size, packing }| {
                Located { place: Place::Offset(offset), size, packing }
            })),
            Self::Directory(top) => {
                let Some((file, size)) = open_below(top, &name)? else { return Ok(None) };
                let mut magic = [0; Packing::MAGIC];
                let read = TarReader::new(&file, Packing::Plain)?.fill(&mut magic)?;
                let packing = Packing::of(magic.get(..read).unwrap_or_default());
                Ok(Some(Located { place: Place::File(name), size, packing }))
            }
        }
    }

    /// A possible reason why a file is missing.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::Tar { contents, .. } if !contents.whole => {
                ", and the archive has no end: it may be cut short"
            }
            _ => "",
        }
    }

    fn missing(&self, file: &str) -> Trouble {
        Trouble::Missing { file: file.to_owned(), hint: self.hint() }
    }

    /// The file `name`, which must be there.
    pub(super) fn needed(&self, name: &str) -> Result<Located, Trouble> {
        self.find(name)?.ok_or_else(|| self.missing(name))
    }

    /// The whole content of the small file `name`, which must be there.
    pub(super) fn needed_small(&self, name: &str) -> Result<Vec<u8>, Trouble> {
        self.small(name)?.ok_or_else(|| self.missing(name))
    }

    /// The whole content of the small file `name`; `None`: there is none.
    pub(super) fn small(&self, name: &str) -> Result<Option<Vec<u8>>, Trouble> {
        let Some(Located { place, size, .. }) = self.find(name)? else { return Ok(None) };
        if size > MAX_JSON {
            return Err(Trouble::LargeJson { file: name.to_owned(), size, most: MAX_JSON });
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let read = match (self, &place) {
            (Self::Tar { file, packing, contents, passes }, Place::Offset(offset)) => {
                if let Some(kept) = contents.kept(*offset) {
                    return Ok(Some(kept.to_vec()));
                }
                let is_plain = *packing == Packing::Plain;
                if !is_plain && passes.fetch_add(1, Ordering::Relaxed) >= MAX_PASSES {
                    return Err(Trouble::TooMany {
                        what: "large files of JSON",
                        most: u64::from(MAX_PASSES),
                    });
                }
                let mut tar = TarReader::new(file, *packing)?;
                tar.go_to(*offset)?;
                tar.fill(&mut bytes)?
            }
            (Self::Directory(top), Place::File(name)) => match open_below(top, name)? {
                Some((file, _)) => TarReader::new(&file, Packing::Plain)?.fill(&mut bytes)?,
                None => return Ok(None),
            },
            _ => 0,
        };
        if read < bytes.len() {
            return Err(cut_short(name, 0, size, read as u64));
        }
        Ok(Some(bytes))
    }

    /// Nothing small will be asked for any more.
    pub(super) fn forget(&mut self) {
        if let Self::Tar { contents, .. } = self {
            contents.forget();
        }
    }

    /// Hands the bytes of `blobs` to `sink`, in the order in which they lie. A blob ends only if `prove` takes the digest
    /// that it has for the right one.
    pub(super) fn stream<S: BlobSink>(
        &self,
        blobs: &[&Blob],
        sink: &mut S,
        mut prove: impl FnMut(&Blob, Digest) -> Result<(), Trouble>,
    ) -> Result<(), Stop<S::Error>> {
        let mut buffer = vec![0; BUFFER];
        match self {
            Self::Directory(top) => {
                for blob in blobs {
                    let Place::File(name) = &blob.place else { continue };
                    let (file, _) = open_below(top, name)?.ok_or_else(|| self.missing(name))?;
                    copy(&mut TarReader::new(&file, Packing::Plain)?, blob, &mut buffer, sink, &mut prove)?;
                }
            }
            Self::Tar { file, packing, .. } => {
                let offset = |blob: &Blob| match blob.place {
                    Place::Offset(offset) => offset,
                    Place::File(_) => u64::MAX,
                };
                let mut ordered = blobs.to_vec();
                ordered::sort_by_key(&mut ordered, |blob| offset(blob));
                let mut tar = TarReader::new(file, *packing)?;
                for blob in ordered {
                    let from = offset(blob);
                    // The same bytes again, by another name.
                    if tar.at() > from {
                        tar = TarReader::new(file, *packing)?;
                    }
                    let found = tar.go_to(from)?;
                    if found < from {
                        return Err(
                            cut_short(&format!("blob {}", blob.digest), from, blob.size, found).into()
                        );
                    }
                    copy(&mut tar, blob, &mut buffer, sink, &mut prove)?;
                }
            }
        }
        Ok(())
    }
}

/// Hands the next bytes of `tar` on as `blob`.
fn copy<S: BlobSink>(
    tar: &mut TarReader<'_>,
    blob: &Blob,
    buffer: &mut [u8],
    sink: &mut S,
    prove: &mut impl FnMut(&Blob, Digest) -> Result<(), Trouble>,
) -> Result<(), Stop<S::Error>> {
    if !sink.begin(blob).map_err(Stop::Sink)? {
        return Ok(());
    }
    let from = tar.at();
    let mut left = blob.size;
    let mut hasher = Hasher::default();
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = tar.fill(buffer.get_mut(..most).unwrap_or_default())?;
        if read == 0 {
            return Err(cut_short(&format!("blob {}", blob.digest), from, blob.size, tar.at()).into());
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        hasher.update(bytes);
        sink.bytes(bytes).map_err(Stop::Sink)?;
        left = left.saturating_sub(read as u64);
    }
    prove(blob, hasher.finish())?;
    sink.end(blob).map_err(Stop::Sink)
}

/// Opens a file below a directory and says how large it is. Symbolic links are not followed: an OCI layout has none, and
/// one that leads out would make a file of the host a part of an image.
fn open_below(top: &File, name: &str) -> Result<Option<(File, u64)>, Trouble> {
    let mut folder = top.try_clone().map_err(Trouble::Io)?;
    let mut parts = name.split('/').peekable();
    while let Some(part) = parts.next() {
        let kind =
            if parts.peek().is_some() { OFlag::O_DIRECTORY } else { OFlag::O_NONBLOCK | OFlag::O_NOCTTY };
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | kind;
        folder = match openat(&folder, part, flags, Mode::empty()) {
            Ok(next) => File::from(next),
            Err(nix::Error::ENOENT | nix::Error::ENOTDIR) => return Ok(None),
            Err(nix::Error::ELOOP) => {
                let text = "a symbolic link, which is not followed".to_owned();
                return Err(Trouble::Unsupported { file: name.to_owned(), text });
            }
            Err(error) => return Err(Trouble::Io(io::Error::from(error))),
        };
    }
    let metadata = folder.metadata().map_err(Trouble::Io)?;
    Ok(metadata.is_file().then_some((folder, metadata.len())))
}
