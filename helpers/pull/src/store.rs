//! The folder of pulled images: an OCI layout, `pulled/`, which `kelson-unpack` reads as it reads any archive, and `.partial/`
//! with what has not arrived whole.
//!
//! A file appears under its name once it is whole and on the disk. The index comes last, so it names whole images alone.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use kelson_image::{Digest, Reference};
use kelson_unpack::archive::{Hasher, Index, MAX_JSON, Manifest, parse};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

/// The layout's name, which `kelsonctl images` shows.
const LAYOUT: &str = "pulled";
const PARTIAL: &str = ".partial";
const BUFFER: usize = 128 << 10;

/// The folder, which no other process changes meanwhile.
pub struct Store {
    layout: PathBuf,
    blobs: PathBuf,
    partial: PathBuf,
    _lock: Flock<File>,
}

/// The file `index.json`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entries {
    schema_version: u8,
    /// In the order in which they were pulled.
    pub manifests: Vec<Entry>,
}

/// An image under one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    pub annotations: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    #[serde(rename = "io.containerd.image.name")]
    pub name: Reference,
    /// The document that lists its signatures, where it needed one.
    #[serde(rename = "kelson.signature", default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Digest>,
}

impl Entries {
    pub fn of(manifests: Vec<Entry>) -> Entries {
        Entries { schema_version: 2, manifests }
    }

    /// What a name leads to.
    pub fn find(&self, name: &Reference) -> Option<&Entry> {
        self.manifests.iter().find(|entry| entry.annotations.name == *name)
    }

    /// Takes an image in. What its name led to before keeps a name by its digest.
    pub fn take(&mut self, entry: Entry) {
        let name = &entry.annotations.name;
        if let Some(same) = self.manifests.iter_mut().find(|old| old.is_same(&entry)) {
            same.annotations.signature = entry.annotations.signature;
            return;
        }
        for old in self.manifests.iter_mut().filter(|old| old.annotations.name == *name) {
            old.annotations.name = name.by_digest(old.digest);
        }
        let mut seen = HashSet::new();
        self.manifests.push(entry);
        self.manifests.reverse();
        self.manifests.retain(|entry| seen.insert(entry.annotations.name.clone()));
        self.manifests.reverse();
    }
}

impl Entry {
    /// Whether it is the same image under the same name.
    fn is_same(&self, other: &Entry) -> bool {
        self.digest == other.digest && self.annotations.name == other.annotations.name
    }
}

/// A blob that is on its way.
pub struct Partial {
    path: PathBuf,
    file: File,
    hasher: Hasher,
    /// Bytes that are there.
    pub length: u64,
}

impl Store {
    /// Opens the folder, and waits for another process that works in it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open(root: &Path) -> io::Result<Store> {
        let (layout, partial) = (root.join(LAYOUT), root.join(PARTIAL));
        let blobs = layout.join("blobs/sha256");
        for folder in [&blobs, &partial] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let lock = File::options().create(true).truncate(false).write(true).open(root.join(".lock"))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
        let store = Store { layout, blobs, partial, _lock: lock };
        if !store.layout.join("oci-layout").exists() {
            // The one that makes it a layout comes last.
            store.save(&Entries::default())?;
            store.replace("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        }
        Ok(store)
    }

    /// The images that are there; none where the file cannot be trusted.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn entries(&self) -> io::Result<Entries> {
        match read(&self.layout.join("index.json"), MAX_JSON) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Entries::default()),
            Err(error) => Err(error),
        }
    }

    /// # Errors
    /// Those of the disk; the index is then as it was.
    pub fn save(&self, entries: &Entries) -> io::Result<()> {
        let entries = Entries { schema_version: 2, ..entries.clone() };
        self.replace("index.json", &serde_json::to_vec(&entries)?)
    }

    /// Replaces a file of the layout, or leaves the old one whole.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let next = self.partial.join(name);
        kelson_sys::replace(&self.layout.join(name), &next, 0o644, bytes)
    }

    fn blob(&self, digest: Digest) -> PathBuf {
        self.blobs.join(digest.hex())
    }

    /// Whether a blob of this size is there. `prove`: and has the right content; one that has not is removed.
    pub fn has(&self, digest: Digest, size: u64, prove: bool) -> bool {
        let path = self.blob(digest);
        if !fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() == size) {
            return false;
        }
        let right = !prove || hash(&path).is_ok_and(|found| found == digest);
        if !right {
            let _ = fs::remove_file(&path);
        }
        right
    }

    /// A small blob that is there.
    pub fn document(&self, digest: Digest) -> io::Result<Vec<u8>> {
        read(&self.blob(digest), MAX_JSON)
    }

    /// Puts a small blob there, whose digest was proved.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn put(&self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        let mut partial = self.partial(digest)?;
        partial.reset()?;
        partial.add(bytes)?;
        self.publish(partial, digest)
    }

    /// What has arrived of a blob so far.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn partial(&self, digest: Digest) -> io::Result<Partial> {
        let path = self.partial.join(digest.hex());
        let mut file =
            File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path)?;
        let (mut hasher, mut length, mut buffer) = (Hasher::default(), 0_u64, vec![0; BUFFER]);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(Partial { path, file, hasher, length }),
                read => {
                    hasher.update(buffer.get(..read).unwrap_or_default());
                    length = length.saturating_add(read as u64);
                }
            }
        }
    }

    /// Gives a blob its name.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn publish(&self, partial: Partial, digest: Digest) -> io::Result<()> {
        partial.file.sync_all()?;
        fs::rename(&partial.path, self.blob(digest))?;
        File::open(&self.blobs)?.sync_all()
    }

    /// Bytes of all blobs and parts, and those that the disk has left.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn room(&self) -> io::Result<(u64, u64)> {
        let mut used = 0_u64;
        for folder in [&self.blobs, &self.partial] {
            for entry in fs::read_dir(folder)? {
                used = used.saturating_add(entry?.metadata()?.len());
            }
        }
        let disk = nix::sys::statvfs::statvfs(&self.blobs)?;
        Ok((used, disk.blocks_available().saturating_mul(disk.fragment_size())))
    }

    /// Removes what no image needs but what `also` names, and what has not arrived whole unless `parts`.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn collect(&self, entries: &Entries, also: &[Digest], parts: bool) -> io::Result<()> {
        let mut needed: HashSet<Digest> = also.iter().copied().collect();
        for entry in &entries.manifests {
            needed.extend(self.parts(entry.digest));
            needed.extend(entry.annotations.signature.into_iter().flat_map(|list| self.parts(list)));
        }
        for file in fs::read_dir(&self.blobs)? {
            let file = file?;
            let digest = file.file_name().to_str().and_then(Digest::from_hex);
            if digest.is_none_or(|digest| !needed.contains(&digest)) {
                fs::remove_file(file.path())?;
            }
        }
        if !parts {
            for file in fs::read_dir(&self.partial)? {
                fs::remove_file(file?.path())?;
            }
        }
        Ok(())
    }

    /// The digests of an image, as far as its documents are there.
    fn parts(&self, top: Digest) -> Vec<Digest> {
        let mut parts = vec![top];
        let Ok(bytes) = self.document(top) else { return parts };
        if let Ok(index) = parse::<Index>("index", &bytes) {
            for child in index.manifests.0 {
                if let Ok(bytes) = self.document(child.digest) {
                    parts.push(child.digest);
                    parts.extend(of_manifest(&bytes));
                }
            }
        } else {
            parts.extend(of_manifest(&bytes));
        }
        parts
    }

    /// Bytes of an image.
    pub fn size(&self, top: Digest) -> u64 {
        let sizes =
            self.parts(top).into_iter().filter_map(|part| Some(fs::metadata(self.blob(part)).ok()?.len()));
        sizes.fold(0, u64::saturating_add)
    }
}

fn of_manifest(bytes: &[u8]) -> Vec<Digest> {
    let Ok(manifest) = parse::<Manifest>("manifest", bytes) else { return Vec::new() };
    manifest.layers.0.iter().chain([&manifest.config]).map(|descriptor| descriptor.digest).collect()
}

impl Partial {
    /// # Errors
    /// Those of the disk.
    pub fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.length = self.length.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Begins again.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn reset(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        io::Seek::rewind(&mut self.file)?;
        (self.hasher, self.length) = (Hasher::default(), 0);
        Ok(())
    }

    pub fn digest(&self) -> Digest {
        self.hasher.clone().finish()
    }
}

fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn hash(path: &Path) -> io::Result<Digest> {
    let (mut file, mut hasher, mut buffer) = (File::open(path)?, Hasher::default(), vec![0; BUFFER]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}
