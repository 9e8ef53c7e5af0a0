//! The folders of unpacked layers, what is known of images, and what containers write.
//!
//! A layer is named by all layers below it (its chain id), so images share those that they have in common from the bottom.
//! It is unpacked beside its place, brought to the disk, and renamed: a folder that is there is whole, also after a power cut.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use kelson_image::Digest;
use kelson_sys::removed;
use nix::unistd::syncfs;
use serde::{Deserialize, Serialize};

use crate::archive::Hasher;
use crate::error::UnpackError;

/// Digits of a digest that name a folder: enough that nobody finds two of one name, and few enough for the page of options
/// that the kernel takes for a mount of many layers.
const DIGITS: usize = 32;
/// What the name of a layer begins with that is not whole.
const UNFINISHED: &str = "new-";

/// The images that PID 1 runs itself.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// What is known of an image that is whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    pub manifest: Digest,
    /// Bytes of its blobs.
    pub size: u64,
    /// The lowest first.
    pub chain_ids: Vec<Digest>,
    /// The bytes of the archive; none of an artifact.
    pub config: String,
}

impl Record {
    /// Whether it is none that a container could run.
    pub fn is_artifact(&self) -> bool {
        self.config.is_empty()
    }
}

impl Store {
    /// The store in the folder of what outlives a reboot; made if it is missing.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn below(state_dir: &Path) -> Result<Store, UnpackError> {
        let store = Store { folder: state_dir.join("containers") };
        for folder in [store.layers(), store.records(), store.folder.join("writable")] {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.map_err(|error| UnpackError::Store { path: folder, error })?;
        }
        Ok(store)
    }

    /// The folder of layers.
    pub fn layers(&self) -> PathBuf {
        self.folder.join("layers")
    }

    fn records(&self) -> PathBuf {
        self.folder.join("images")
    }

    /// The folder for what the container of a service writes.
    pub fn writable(&self, service: &str) -> PathBuf {
        self.folder.join("writable").join(service)
    }

    pub fn folder_name(id: &Digest) -> String {
        id.hex().chars().take(DIGITS).collect()
    }

    fn layer(&self, id: &Digest) -> PathBuf {
        self.layers().join(Self::folder_name(id))
    }

    /// The folders of layers, in the same order.
    pub fn folders(&self, ids: &[Digest]) -> Vec<PathBuf> {
        ids.iter().map(|id| self.layer(id)).collect()
    }

    /// Bytes that the disk has, where it tells.
    pub fn space(&self) -> u64 {
        nix::sys::statvfs::statvfs(&self.folder)
            .map_or(u64::MAX, |disk| disk.blocks_available().saturating_mul(disk.fragment_size()))
    }

    pub fn has(&self, id: &Digest) -> bool {
        self.layer(id).is_dir()
    }

    /// Whether all layers of an image are there.
    pub fn is_whole(&self, record: &Record) -> bool {
        record.chain_ids.iter().all(|id| self.has(id))
    }

    /// An empty folder in which a layer is unpacked. What an earlier process left half done goes.
    ///
    /// # Errors
    /// When the disk says so.
    pub fn begin(&self, id: &Digest) -> Result<PathBuf, UnpackError> {
        let new = self.layers().join(format!("{UNFINISHED}{}", Self::folder_name(id)));
        let begun =
            removed(fs::remove_dir_all(&new)).and_then(|()| DirBuilder::new().mode(0o755).create(&new));
        begun.map_err(|error| UnpackError::Store { path: new.clone(), error })?;
        Ok(new)
    }

    /// Brings an unpacked layer to the disk, and then to its place.
    ///
    /// # Errors
    /// When the disk says so.
    pub fn commit(&self, new: PathBuf, id: &Digest) -> Result<(), UnpackError> {
        let commit = || {
            syncfs(File::open(&new)?)?;
            fs::rename(&new, self.layer(id))?;
            File::open(self.layers())?.sync_all()
        };
        commit().map_err(|error| UnpackError::Store { path: new.clone(), error })
    }

    /// The file of the record of an image.
    fn record_file(&self, name: &str) -> PathBuf {
        self.records().join(Self::folder_name(&Hasher::of(name.as_bytes())))
    }

    /// The lock of those who write the record of an image.
    pub fn lock_name(&self, name: &str) -> String {
        let file = self.record_file(name);
        format!("image-{}", file.file_name().unwrap_or_default().display())
    }

    /// What is known of an image of this name.
    ///
    /// # Errors
    /// When the disk says so. A record that makes no sense is none.
    pub fn record(&self, name: &str) -> Result<Option<Record>, UnpackError> {
        let path = self.record_file(name);
        match fs::read(&path) {
            Ok(text) => Ok(serde_json::from_slice::<Record>(&text).ok().filter(|record| record.name == name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(UnpackError::Store { path, error }),
        }
    }

    /// All images that are whole.
    ///
    /// # Errors
    /// When the disk says so.
    pub fn images(&self) -> Result<Vec<Record>, UnpackError> {
        let texts =
            names(&self.records())?.into_iter().filter_map(|name| fs::read(self.records().join(name)).ok());
        let records = texts.filter_map(|text| serde_json::from_slice::<Record>(&text).ok());
        Ok(records.filter(|record| self.is_whole(record)).collect())
    }

    /// Removes what is known of an image.
    ///
    /// # Errors
    /// When the disk says so.
    pub fn forget(&self, name: &str) -> Result<(), UnpackError> {
        let path = self.record_file(name);
        removed(fs::remove_file(&path)).map_err(|error| UnpackError::Store { path, error })
    }

    /// Removes the layers that no image needs, and none of `used`, by the names of their folders.
    ///
    /// # Errors
    /// When the disk says so.
    pub fn remove_layers(&self, used: &BTreeSet<String>) -> Result<(), UnpackError> {
        let images = self.images()?;
        let needed: BTreeSet<String> =
            images.iter().flat_map(|image| &image.chain_ids).map(Self::folder_name).collect();
        for name in names(&self.layers())? {
            if !needed.contains(&name) && !used.contains(&name) {
                let path = self.layers().join(name);
                removed(fs::remove_dir_all(&path)).map_err(|error| UnpackError::Store { path, error })?;
            }
        }
        Ok(())
    }

    /// Removes what was written by the containers of services that have none any more.
    ///
    /// # Errors
    /// When the disk says so.
    pub fn remove_written(&self, has_container: impl Fn(&str) -> bool) -> Result<(), UnpackError> {
        let all = names(&self.folder.join("writable"))?;
        all.iter().filter(|service| !has_container(service)).try_for_each(|service| self.discard(service))
    }

    /// Puts a record in its place at once. The caller holds its lock.
    ///
    /// # Errors
    /// When the disk says so.
    pub fn put(&self, record: &Record) -> Result<(), UnpackError> {
        let path = self.record_file(&record.name);
        let new = path.with_extension("new");
        let put = || {
            let text = serde_json::to_vec(record)?;
            kelson_sys::replace(&path, &new, 0o644, &text)
        };
        put().map_err(|error: io::Error| UnpackError::Store { path: path.clone(), error })
    }

    /// Removes what the container of a service has written. Nothing of it is mounted then.
    ///
    /// # Errors
    /// When the disk says so.
    pub fn discard(&self, service: &str) -> Result<(), UnpackError> {
        let path = self.writable(service);
        removed(fs::remove_dir_all(&path)).map_err(|error| UnpackError::Store { path, error })
    }
}

/// What is in a folder; nothing where it is not there.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, UnpackError> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.and_then(|entries| {
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
        }),
    };
    listed.map_err(|error| UnpackError::Store { path: folder.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_stay_while_an_image_or_a_container_needs_them() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::below(folder.path()).unwrap();
        let ids = [b"a", b"b", b"c", b"d"].map(|text| Hasher::of(text));
        for id in &ids {
            let new = store.begin(id).unwrap();
            store.commit(new, id).unwrap();
        }
        let record = |name: &str, chain_ids: &[Digest]| Record {
            name: name.to_owned(),
            manifest: ids[0],
            size: 1,
            chain_ids: chain_ids.to_vec(),
            config: String::new(),
        };
        store.put(&record("one:1", &ids[..2])).unwrap();
        store.put(&record("two:1", &ids[..1])).unwrap();
        assert_eq!(store.record("one:1").unwrap().unwrap().chain_ids.len(), 2);
        assert!(store.record("three:1").unwrap().is_none());
        store.forget("one:1").unwrap();
        store.remove_layers(&BTreeSet::from([Store::folder_name(&ids[2])])).unwrap();
        assert_eq!(ids.map(|id| store.has(&id)), [true, false, true, false]);
        assert_eq!(store.images().unwrap().len(), 1);
    }

    #[test]
    fn what_a_container_has_written_stays_as_long_as_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::below(folder.path()).unwrap();
        for service in ["web", "gone"] {
            fs::create_dir_all(store.writable(service).join("upper")).unwrap();
        }
        store.remove_written(|service| service == "web").unwrap();
        assert!(store.writable("web").is_dir() && !store.writable("gone").exists());
    }
}
