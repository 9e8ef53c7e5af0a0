//! The contents of the archives in the images folders, remembered so that a second boot does not decompress
//! them again.

mod memory;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
mod tests;

use kelson_sys::ordered;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use kelson_image::{Digest, Reference};
use memory::{Known, KnownImage, MAX_ARCHIVES, Stamp};

use super::bounded::List;
use super::{Archive, ArchiveError, Listed, Platform, Trouble};

/// Entries of one folder that are looked at.
const MAX_ENTRIES: usize = 4096;

/// An image in one of the archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub archive: PathBuf,
    /// The names that lead to it.
    pub references: Vec<Reference>,
    /// Names that an earlier archive has as well: they lead here only together with a digest.
    pub shadowed: Vec<Reference>,
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

/// The result of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// In the order of the folders, sorted by the file names of their archives.
    pub images: Vec<Found>,
    /// Notes for an operator: archives that cannot be read, names that two of them hold.
    pub notes: Vec<String>,
    /// Stands for the archives as they were, as [`archives`] would tell.
    pub archives: u32,
    /// Every folder and archive could be read: what was not found is not there.
    pub whole: bool,
}

impl Scan {
    /// The image that a service means.
    pub fn find(&self, wanted: &Reference) -> Option<&Found> {
        let means = |image: &&Found| {
            let digests: Vec<Digest> = image.index.into_iter().chain([image.manifest]).collect();
            let shadowed = image.shadowed.iter().filter(|_| wanted.digest().is_some());
            image.references.iter().chain(shadowed).any(|name| wanted.means(name, &digests))
        };
        let mut meant = self.images.iter().filter(means).peekable();
        let first = meant.peek().copied();
        // One that runs here goes before one that does not.
        meant.find(|image| image.trouble.is_none()).or(first)
    }
}

/// The memory of the archives, a file of JSON.
pub struct Catalog {
    file: PathBuf,
}

impl Catalog {
    /// The catalog in the folder `folder`, which is made when there is something to remember.
    pub fn open(folder: &Path) -> Self {
        Self { file: folder.join("catalog.json") }
    }

    /// Looks through `folders` in turn. Archives that are as they were are not opened. Nothing that is wrong with one
    /// archive hides the others. A catalog that cannot be trusted counts as empty.
    pub fn scan(&self, folders: &[PathBuf], host: &Platform) -> Scan {
        self.scan_for(folders, host, None).0
    }

    /// As [`scan`](Self::scan), for a service that means `wanted`. If the archive that holds it is compressed and was
    /// opened now, it comes along: to open it once more would decompress all of it again.
    pub fn scan_for(
        &self,
        folders: &[PathBuf],
        host: &Platform,
        wanted: Option<&Reference>,
    ) -> (Scan, Option<Archive>) {
        let mut scan = Scan { whole: true, ..Scan::default() };
        let mut opened = None;
        let before = memory::load(&self.file, host);
        let mut known: HashMap<&Path, &Known> =
            before.iter().map(|known| (known.path.as_path(), known)).collect();
        let mut archives = Vec::new();
        let stamped = stamped(folders, &mut scan.notes);
        scan.whole = scan.notes.is_empty();
        scan.archives = number(&stamped);
        for (path, stamp) in stamped {
            // The signature of an archive is none itself.
            if path.extension().is_some_and(|end| end == "minisig") {
                continue;
            }
            let stamp = match stamp {
                Ok(Some(stamp)) => stamp,
                Ok(None) => continue,
                Err(error) => {
                    scan.notes.push(format!("archive {}: cannot be read: {error}", path.display()));
                    scan.whole = false;
                    continue;
                }
            };
            if archives.len() >= MAX_ARCHIVES {
                scan.notes
                    .push(format!("more than {MAX_ARCHIVES} archives: {} is not looked at", path.display()));
                break;
            }
            let same = |known: &&Known| known.stamp == stamp && (known.is_sound() || !path.is_dir());
            match known.remove(path.as_path()).filter(same) {
                Some(known) => archives.push(known.clone()),
                None => match look(&path, stamp, host) {
                    Ok((known, archive)) => {
                        archives.push(known);
                        let may_serve = |archive: &Archive| {
                            wanted.is_some_and(|wanted| archive.names(wanted)) && archive.is_dear()
                        };
                        opened = opened.or_else(|| archive.filter(may_serve));
                    }
                    Err(error) => {
                        scan.notes.push(error.to_string());
                        scan.whole = false;
                    }
                },
            }
        }
        if archives != before
            && let Err(error) = memory::save(&self.file, host, &archives)
        {
            scan.notes.push(format!("the catalog {} cannot be written: {error}", self.file.display()));
        }
        scan.gather(archives);
        let found = wanted.and_then(|wanted| scan.find(wanted)).map(|found| found.archive.as_path());
        let opened = opened.filter(|archive| found == Some(archive.path()));
        (scan, opened)
    }
}

impl Scan {
    /// Sorts out which archive a name leads to.
    fn gather(&mut self, archives: Vec<Known>) {
        let mut taken: HashMap<Reference, (Digest, PathBuf)> = HashMap::new();
        for known in archives {
            self.notes.extend(known.notes.0);
            for image in known.images.0 {
                let KnownImage { references, platform, manifest, index, size, trouble } = image;
                let (mut own, mut shadowed) = (Vec::new(), Vec::new());
                for name in references.0 {
                    match taken.get(&name) {
                        Some((digest, first)) => {
                            if *digest != manifest {
                                let (first, second) = (first.display(), known.path.display());
                                self.notes.push(format!(
                                    "image {name} is in {first} and in {second}: the first counts"
                                ));
                            }
                            shadowed.push(name);
                        }
                        None => {
                            // An image that cannot run here takes no name from one that can.
                            if trouble.is_none() {
                                taken.insert(name.clone(), (manifest, known.path.clone()));
                            }
                            own.push(name);
                        }
                    }
                }
                let archive = known.path.clone();
                let references = own;
                self.images.push(Found {
                    archive,
                    references,
                    shadowed,
                    platform,
                    manifest,
                    index,
                    size,
                    trouble,
                });
            }
        }
    }
}

type Stamped = Vec<(PathBuf, io::Result<Option<Stamp>>)>;

/// The possible archives in these folders, in their order.
fn stamped(folders: &[PathBuf], notes: &mut Vec<String>) -> Stamped {
    let mut seen = HashSet::new();
    let mut paths: Vec<PathBuf> = Vec::new();
    for folder in folders.iter().filter(|folder| seen.insert(folder.as_path())) {
        paths.extend(list(folder, notes));
    }
    let stamp = |path: PathBuf| {
        let stamp = Stamp::of(&path);
        (path, stamp)
    };
    paths.into_iter().map(stamp).collect()
}

/// A number that stands for the archives in these folders as they are: another one, once an archive has come, has
/// changed or is gone. None is opened.
pub fn archives(folders: &[PathBuf]) -> u32 {
    number(&stamped(folders, &mut Vec::new()))
}

fn number(archives: &Stamped) -> u32 {
    let mut hasher = DefaultHasher::new();
    for (path, stamp) in archives {
        path.hash(&mut hasher);
        stamp.as_ref().ok().hash(&mut hasher);
        // The index of a layout may be there before its blobs.
        let blobs = fs::read_dir(path.join("blobs/sha256")).into_iter().flatten().flatten();
        let sizes =
            blobs.take(MAX_ENTRIES).filter_map(|blob| Some((blob.file_name(), blob.metadata().ok()?.len())));
        sizes.collect::<BTreeSet<_>>().hash(&mut hasher);
    }
    u32::try_from(hasher.finish() >> 32).unwrap_or_default()
}

/// The possible archives in a folder, sorted; hidden files are none.
fn list(folder: &Path, notes: &mut Vec<String>) -> Vec<PathBuf> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            notes.push(format!("the images folder {} cannot be read: {error}", folder.display()));
            return Vec::new();
        }
    };
    let mut names = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => names.push(entry.file_name()),
            Err(error) => {
                notes.push(format!("the images folder {} cannot be read: {error}", folder.display()));
                break;
            }
        }
        if names.len() > MAX_ENTRIES {
            notes.push(format!("the images folder {} holds more than {MAX_ENTRIES} files", folder.display()));
            break;
        }
    }
    names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
    ordered::sort(&mut names);
    names.iter().map(|name| folder.join(name)).collect()
}

/// Opens an archive that is new or has changed. Faults that will matter later are remembered too.
fn look(path: &Path, stamp: Stamp, host: &Platform) -> Result<(Known, Option<Archive>), ArchiveError> {
    let mut known = Known { path: path.to_owned(), stamp, images: List::default(), notes: List::default() };
    match Archive::open(path) {
        Ok(archive) => {
            for image in archive.images() {
                match remember(image, host) {
                    Ok(image) => known.images.0.push(image),
                    Err(trouble) => known.notes.0.push(archive.error(trouble).to_string()),
                }
            }
            Ok((known, Some(archive)))
        }
        Err(error) if error.trouble.lasts() => {
            known.notes.0.push(error.to_string());
            Ok((known, None))
        }
        Err(error) => Err(error),
    }
}

/// The error: the archive holds nothing whole of the image.
fn remember(image: &Listed, host: &Platform) -> Result<KnownImage, Trouble> {
    let (candidate, trouble) = match (image.best(host, None), image.candidates.first()) {
        (Ok(best), _) => (best, None),
        (Err(trouble), Some(other)) => (other.as_ref(), Some(trouble.to_string())),
        (Err(trouble), None) => return Err(trouble),
    };
    Ok(KnownImage {
        references: List(image.references.clone()),
        platform: candidate.platform.clone(),
        manifest: candidate.manifest.digest,
        index: image.index,
        size: candidate.size(),
        trouble,
    })
}
