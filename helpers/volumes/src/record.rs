//! What the manager has done to a volume: enough to undo it, and neither context nor secrets.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::path::HostPath;
use crate::usage::Usage;

/// Another number: a version of Kelson that this one does not know has written it.
const FORMAT: u32 = 1;
/// Of a record that cannot be read.
const SET_ASIDE: &str = ".unreadable";
/// Of one that is being written.
const NEW: &str = ".new";

/// Written before each call. A step that it has may or may not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub format: u32,
    /// The boot in which it was written: its mounts have ended with it.
    pub boot: String,
    pub volume: String,
    pub plugin: String,
    /// By which the plugin knows the volume.
    pub id: String,
    /// By which the controller knows the node that the volume is attached to.
    pub node: Option<String>,
    pub stages: Vec<Staged>,
    pub published: Vec<Published>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    pub usage: Usage,
    pub path: HostPath,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    pub service: String,
    pub number: u64,
    pub name: String,
    pub usage: Usage,
    pub target: HostPath,
    /// The call has succeeded.
    pub done: bool,
}

impl Record {
    pub fn new(boot: &str, volume: &str) -> Record {
        Record {
            format: FORMAT,
            boot: boot.to_owned(),
            volume: volume.to_owned(),
            plugin: String::new(),
            id: String::new(),
            node: None,
            stages: Vec::new(),
            published: Vec::new(),
        }
    }

    /// Nothing is to be undone.
    pub fn is_empty(&self) -> bool {
        self.node.is_none() && self.stages.is_empty() && self.published.is_empty()
    }
}

/// The folder of the records: a file for each volume that is in use.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(path: &Path) -> Folder {
        Folder(path.to_owned())
    }

    /// Replaces the record of a volume whole; an empty one is removed. It blocks.
    ///
    /// # Errors
    /// A sentence, when the disk does not take it.
    pub fn write(&self, record: &Record) -> Result<(), String> {
        let path = self.0.join(file_name(&record.volume));
        let write = || {
            if record.is_empty() {
                return kelson_sys::removed(fs::remove_file(&path)).map(drop);
            }
            let text = serde_json::to_vec_pretty(record).map_err(io::Error::other)?;
            let replace = || kelson_sys::replace(&path, &with(&path, NEW), 0o600, &text);
            match replace() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir_all(&self.0)?;
                    replace()
                }
                other => other,
            }
        };
        write().map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }

    /// All records, and what is wrong with others: those are set aside under another name, and nothing removes them.
    pub fn read(&self) -> (BTreeMap<String, Record>, Vec<String>) {
        let (mut records, mut troubles) = (BTreeMap::new(), Vec::new());
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return (records, troubles),
            Err(error) => {
                let folder = self.0.display();
                troubles.push(format!(
                    "{folder} cannot be read: {error}; volumes that were in use are not undone"
                ));
                return (records, troubles);
            }
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            let ends = |with: &str| path.to_string_lossy().ends_with(with);
            if ends(NEW) || ends(SET_ASIDE) {
                continue;
            }
            match read(&path) {
                Ok(record) => drop(records.insert(record.volume.clone(), record)),
                Err(error) => {
                    let aside = with(&path, SET_ASIDE);
                    let (path, to) = (path.display(), aside.display());
                    let moved = match fs::rename(path.to_string(), &aside) {
                        Ok(()) => format!("it is now {to}"),
                        Err(error) => format!("and it cannot be renamed to {to}: {error}"),
                    };
                    troubles.push(format!(
                        "{path}, the record of a volume, cannot be read: {error}; {moved}. What it describes may \
                         still be mounted: look at /proc/self/mountinfo"
                    ));
                }
            }
        }
        (records, troubles)
    }
}

fn read(path: &Path) -> io::Result<Record> {
    let record: Record = serde_json::from_slice(&fs::read(path)?).map_err(io::Error::other)?;
    match record.format {
        FORMAT => Ok(record),
        other => Err(io::Error::other(format!("its format is {other}, and this version knows {FORMAT}"))),
    }
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// The record has the name of its volume too: this one only has to be one of its own.
fn file_name(volume: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    volume
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(volume: &str) -> Record {
        Record { node: Some("a".to_owned()), ..Record::new("boot", volume) }
    }

    #[test]
    fn records_are_written_read_and_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(&place.path().join("volumes"));
        assert_eq!(folder.read(), (BTreeMap::new(), Vec::new()));
        for volume in ["db", "../db", "a.new", "a.unreadable"] {
            folder.write(&record(volume)).unwrap();
            assert_eq!(folder.read().0[volume], record(volume));
        }
        assert_eq!(folder.read().0.len(), 4);
        folder.write(&Record::new("boot", "db")).unwrap();
        folder.write(&Record::new("boot", "db")).unwrap();
        assert!(folder.read().0.len() == 3 && folder.read().1.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_reported_and_kept() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        folder.write(&record("good")).unwrap();
        fs::write(place.path().join("bad"), "{").unwrap();
        let newer = Record { format: 2, ..record("newer") };
        fs::write(place.path().join("newer"), serde_json::to_vec(&newer).unwrap()).unwrap();
        let (records, troubles) = folder.read();
        assert_eq!((records.len(), troubles.len()), (1, 2), "{troubles:?}");
        assert!(troubles.iter().any(|trouble| trouble.contains("its format is 2")), "{troubles:?}");
        // Once; and a new record of that volume does not replace it.
        assert!(folder.read().1.is_empty());
        folder.write(&record("bad")).unwrap();
        assert_eq!(fs::read_to_string(place.path().join("bad.unreadable")).unwrap(), "{");
    }

    #[test]
    fn a_record_without_a_disk_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Folder::new(&file).write(&record("db")).unwrap_err();
        assert!(error.contains("cannot be written"), "{error}");
    }
}
