//! The reading side of images: archives and OCI layout directories, as sandboxed `kelson-unpack` sees them.
//!
//! [`Archive::open`] reads what an archive says about itself: a table of contents by one pass over its headers, then the
//! few files of JSON that lead from names to layers, each checked against its digest. [`Archive::read`] then streams
//! the blobs that are wanted, in the order in which they lie, and proves size and digest of each. [`LayerCheck`] looks
//! into the layers on the way. [`Catalog`] remembers what the archives hold.
//!
//! All of it is synchronous; an [`Archive`] can be shared by threads. Memory stays bounded, whatever the
//! archive contains.
//!
//! The name of an image that an archive gives only a tag, or nothing: see [`Reference::of_archive`].

mod bounded;
mod catalog;
mod config;
mod contents;
mod docker;
mod draft;
mod error;
mod hasher;
mod headers;
mod image;
mod layer_check;
mod layout;
mod manifest;
mod packing;
mod platform;
mod store;
mod tar_reader;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
mod testing;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};

use kelson_image::{Digest, Reference};

pub use bounded::{List, MAX_JSON, parse};
pub use catalog::{Catalog, Found, Scan, archives};
pub use config::Config;
pub use error::{ArchiveError, ReadError, Trouble};
pub use hasher::Hasher;
pub use headers::HeaderError;
pub use image::{Blob, Document, Image, Layer, Listed};
pub use layer_check::{Checked, LayerCheck, LayerError};
pub use manifest::{
    Annotations, Descriptor, Form, Index, Manifest, Shape, WrittenPlatform, is_index, is_manifest,
};
pub use platform::Platform;

use draft::Documents;
pub use store::BlobSink;
use store::{Stop, Store};

use crate::trust::Signature;

/// An archive or a directory of images, open.
pub struct Archive {
    path: PathBuf,
    store: Store,
    images: Vec<Listed>,
}

impl Archive {
    /// Reads what the archive holds. A compressed one is decompressed once to its end. In `docker save` archives whose
    /// layers are compressed these are read too, since nothing else tells their digests.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let error = |trouble| ArchiveError { archive: path.to_owned(), trouble: Box::new(trouble) };
        let mut store = Store::open(path).map_err(error)?;
        let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let images = list(&store, &file_name).map_err(error)?;
        store.forget();
        Ok(Self { path: path.to_owned(), store, images })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All its images, whatever they are for.
    pub fn images(&self) -> &[Listed] {
        &self.images
    }

    /// As [`image`](Self::image), for a container: an artifact is none for that.
    pub fn program(&self, wanted: &Reference, host: &Platform) -> Result<Image, ArchiveError> {
        let image = self.image(wanted, host)?;
        if !image.platform.is_some() {
            return Err(self.error(Trouble::Artifact(wanted.clone())));
        }
        Ok(image)
    }

    /// The image or artifact that a service means, for this host.
    pub fn image(&self, wanted: &Reference, host: &Platform) -> Result<Image, ArchiveError> {
        let mut first_error = None;
        for image in self.images.iter().filter(|image| image.is_meant_by(wanted)) {
            match self.build(image, host, wanted.digest()) {
                Ok(image) => return Ok(image),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| {
            self.error(Trouble::NoImage { wanted: wanted.clone(), held: names(&self.images) })
        }))
    }

    /// An image of [`images`](Self::images), for this host.
    pub fn choose(&self, image: &Listed, host: &Platform) -> Result<Image, ArchiveError> {
        self.build(image, host, None)
    }

    fn build(&self, image: &Listed, host: &Platform, digest: Option<Digest>) -> Result<Image, ArchiveError> {
        let candidate = image.best(host, digest).map_err(|trouble| self.error(trouble))?;
        candidate.image(image).map_err(|trouble| self.error(trouble))
    }

    /// The signatures that were pulled with the image of this digest; none where it has none.
    ///
    /// # Errors
    /// The archive cannot be read, or what it holds of them is not whole.
    pub fn signatures(&self, signed: Digest) -> Result<Vec<Signature>, ArchiveError> {
        layout::signatures(&self.store, signed).map_err(|trouble| self.error(trouble))
    }

    /// Its file; `None`: it is a directory.
    pub fn file(&self) -> Option<&File> {
        match &self.store {
            Store::Tar { file, .. } => Some(file),
            Store::Directory(_) => None,
        }
    }

    /// Whether several threads may call [`read`](Self::read) at once without each reading the whole archive: of a
    /// compressed one all wanted blobs are best read by one call.
    pub fn reads_side_by_side(&self) -> bool {
        self.store.is_seekable()
    }

    /// Whether one of its images may be meant.
    fn names(&self, wanted: &Reference) -> bool {
        self.images.iter().any(|image| image.is_meant_by(wanted))
    }

    /// Whether to open it again costs more than to keep it: it is compressed, and its documents are few.
    fn is_dear(&self) -> bool {
        const FEW: usize = 1 << 20;
        let candidates = self.images.iter().flat_map(|image| &image.candidates);
        let held = candidates.fold(0_usize, |sum, candidate| sum.saturating_add(candidate.documents()));
        !self.store.is_seekable() && held <= FEW
    }

    /// Reads blobs of this archive's images into `sink`, in the order in which they lie in it; one that is wanted twice
    /// is read once. Ends at the first error: a blob that has begun and not ended is not to be trusted.
    pub fn read<S: BlobSink>(&self, blobs: &[Blob], sink: &mut S) -> Result<(), ReadError<S::Error>> {
        let mut wanted: Vec<&Blob> = Vec::new();
        for blob in blobs {
            if !wanted.iter().any(|other| other.digest == blob.digest) {
                wanted.push(blob);
            }
        }
        let prove = |blob: &Blob, found| Trouble::unless_same(blob.digest, found);
        self.store.stream(&wanted, sink, prove).map_err(|stop| match stop {
            Stop::Trouble(trouble) => ReadError::Archive(self.error(trouble)),
            Stop::Sink(error) => ReadError::Sink(error),
        })
    }

    fn error(&self, trouble: Trouble) -> ArchiveError {
        ArchiveError { archive: self.path.clone(), trouble: Box::new(trouble) }
    }
}

/// The images of an archive, by whatever leads to them in it. `index.json` goes before `manifest.json` where it is whole.
fn list(store: &Store, file_name: &str) -> Result<Vec<Listed>, Trouble> {
    let mut documents = Documents::new(store);
    let layout = layout::read_layout(&mut documents)?;
    let drafts = docker::read_docker(&mut documents, layout)?;
    let drafts = drafts.ok_or_else(|| Trouble::Foreign(store.hint()))?;
    Ok(drafts.into_iter().map(|draft| draft.list(file_name)).collect())
}

/// The names of an archive's images, for a message.
fn names(images: &[Listed]) -> String {
    const SHOWN: usize = 10;
    let mut names: Vec<String> =
        images.iter().flat_map(|image| &image.references).map(Reference::to_string).collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    match (names.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}
