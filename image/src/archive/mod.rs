//! The reading side of images: archives and OCI layout directories, as sandboxed `kelson-unpack` sees them.
//!
//! [`Archive::open`] reads what an archive says about itself: a table of contents by one pass over its headers, then the
//! few files of JSON that lead from names to layers, each checked against its digest. [`Archive::read`] then streams
//! the blobs that are wanted, in the order in which they lie, and proves size and digest of each. [`LayerCheck`] looks
//! into the layers on the way. [`Catalog`] remembers what the archives hold.
//!
//! All of it is synchronous; an [`Archive`] can be shared by threads. Whatever the archive says, memory stays bounded.
//!
//! The name of an image that an archive gives only a tag, or nothing: see [`Reference::of_archive`].

mod bounded;
mod catalog;
mod config;
mod digest;
mod error;
mod headers;
mod image;
mod layer_check;
mod platform;
mod reference;

use std::path::{Path, PathBuf};

pub use catalog::{Catalog, Found, Scan};
pub use config::Config;
pub use digest::{Digest, DigestError, Hasher};
pub use error::{ArchiveError, ReadError, Trouble};
pub use headers::HeaderError;
pub use image::{Blob, Document, Image, Layer, Listed};
pub use layer_check::{Checked, LayerCheck, LayerError};
pub use platform::Platform;
pub use reference::{Reference, ReferenceError};

/// Takes the blobs that [`Archive::read`] reads.
pub trait BlobSink {
    type Error;

    /// A blob begins. `false`: it is not wanted any more, nothing else is said of it.
    fn begin(&mut self, blob: &Blob) -> Result<bool, Self::Error>;

    /// The next bytes of the blob that has begun, at most 256 KiB.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// The blob was whole, its size and digest are right.
    fn end(&mut self, blob: &Blob) -> Result<(), Self::Error>;
}

/// An archive or a directory of images, open.
pub struct Archive {
    path: PathBuf,
    images: Vec<Listed>,
}

impl Archive {
    /// Reads what the archive holds. A compressed one is decompressed once to its end. In `docker save` archives whose
    /// layers are compressed these are read too, since nothing else tells their digests.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        Err(ArchiveError { archive: path.to_owned(), trouble: Trouble::NotAFile })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All its images, whatever they are for.
    pub fn images(&self) -> &[Listed] {
        &self.images
    }

    /// The image that a service means, for this host.
    pub fn image(&self, wanted: &Reference, host: &Platform) -> Result<Image, ArchiveError> {
        let _ = (wanted, host);
        Err(ArchiveError { archive: self.path.clone(), trouble: Trouble::NotAFile })
    }

    /// An image of [`images`](Self::images), for this host.
    pub fn choose(&self, image: &Listed, host: &Platform) -> Result<Image, ArchiveError> {
        let _ = (image, host);
        Err(ArchiveError { archive: self.path.clone(), trouble: Trouble::NotAFile })
    }

    /// Whether several threads may call [`read`](Self::read) at once without each reading the whole archive: of a
    /// compressed one all wanted blobs are best read by one call.
    pub fn reads_side_by_side(&self) -> bool {
        false
    }

    /// Reads blobs of this archive's images into `sink`, in the order in which they lie in it; one that is wanted twice
    /// is read once. Ends at the first error: a blob that has begun and not ended is not to be trusted.
    pub fn read<S: BlobSink>(&self, blobs: &[Blob], sink: &mut S) -> Result<(), ReadError<S::Error>> {
        let _ = (blobs, sink);
        Err(ReadError::Archive(ArchiveError { archive: self.path.clone(), trouble: Trouble::NotAFile }))
    }
}
