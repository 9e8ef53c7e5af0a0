//! What outlives the process: the id of the host, its lease, and the last answers of the store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kelson_sys::{process, removed, replace};

use crate::clock::Moment;
use crate::core::discovery::Answers;

/// The folder in the state folder and in the runtime folder.
const FOLDER: &str = "fleet";
const ID: &str = "id";
const LEASE: &str = "lease";
const CONTACT: &str = "contact";
const FOUND: &str = "found";

/// The id that tells this host from another of the same name. It is made once.
///
/// # Errors
/// With the id, why it will be another one after a reboot.
pub fn id(state: &Path, runtime: &Path) -> (String, Option<String>) {
    let (state, runtime) = (state.join(FOLDER), runtime.join(FOLDER));
    let known = [&state, &runtime].into_iter().find_map(|folder| read(folder, ID).filter(|id| is_id(id)));
    let id = known.or_else(|| process::kernel("random/uuid").ok()).unwrap_or_default();
    if read(&state, ID).as_deref() == Some(&id) {
        return (id, None);
    }
    let trouble = write(&state, ID, &id).err().map(|error| {
        let path = state.join(ID);
        format!("{}: {error}; after a reboot the host waits until its own lease has expired", path.display())
    });
    // The next helper of this boot has the same id.
    let _ = write(&runtime, ID, &id);
    (id, trouble)
}

fn is_id(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn read(folder: &Path, name: &str) -> Option<String> {
    Some(fs::read_to_string(folder.join(name)).ok()?.trim_end().to_owned())
}

fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(name);
    replace(&path, &path.with_extension("new"), 0o600, format!("{text}\n").as_bytes())
}

/// Where a file of this name is in the state folder, or in the runtime folder.
pub fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(FOLDER).join(name)
}

/// The text of such a file. `None`: there is none.
pub fn read_in(folder: &Path, name: &str) -> Option<String> {
    read(&folder.join(FOLDER), name)
}

/// Writes such a file, for nobody else to read.
///
/// # Errors
/// Those of the disk; the old file stays.
pub fn write_in(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    write(&folder.join(FOLDER), name, text)
}

/// Removes such a file, where it is there.
pub fn forget(folder: &Path, name: &str) {
    let _ = fs::remove_file(path(folder, name));
}

/// When the store confirmed the registration to the helper before this one. `None`: not since the boot.
pub fn contact(runtime: &Path, now: Moment) -> Option<Moment> {
    let micros = read(&runtime.join(FOLDER), CONTACT)?.parse().ok()?;
    // A runtime folder may outlive the boot whose time it names.
    Some(Moment::from_micros(micros)).filter(|contact| *contact <= now)
}

/// Without the file, the next helper counts from its own first confirmation.
pub fn set_contact(runtime: &Path, contact: Moment) {
    let _ = write(&runtime.join(FOLDER), CONTACT, &contact.as_micros().to_string());
}

/// What the helper before this one knew of what services wait for. `None`: nothing since the boot.
pub fn found(runtime: &Path, now: Moment) -> Option<Answers> {
    let text = read(&runtime.join(FOLDER), FOUND)?;
    let found: Answers = serde_json::from_str(&text).ok()?;
    // As above.
    Some(found).filter(|found| Moment::from_micros(found.at) <= now)
}

/// Without the file, the next helper knows nothing before the store answers.
pub fn set_found(runtime: &Path, found: &Answers) {
    let _ = write(&runtime.join(FOLDER), FOUND, &serde_json::to_string(found).unwrap_or_default());
}

/// The file with the lease of the host: the next helper continues with it.
pub struct LeaseFile {
    folder: PathBuf,
    /// What it says.
    written: Option<i64>,
}

impl LeaseFile {
    pub fn new(runtime: &Path) -> LeaseFile {
        let folder = runtime.join(FOLDER);
        let written = read(&folder, LEASE).and_then(|text| text.parse().ok());
        LeaseFile { folder, written }
    }

    pub fn lease(&self) -> Option<i64> {
        self.written
    }

    /// Without the file, the next helper puts the keys once more.
    pub fn set(&mut self, lease: Option<i64>) {
        if self.written == lease {
            return;
        }
        self.written = lease;
        let _ = match lease {
            Some(lease) => write(&self.folder, LEASE, &lease.to_string()),
            None => removed(fs::remove_file(self.folder.join(LEASE))),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (state, runtime) = (folder.path().join("state"), folder.path().join("run"));
        let (made, trouble) = id(&state, &runtime);
        assert!(is_id(&made) && trouble.is_none(), "{made} {trouble:?}");
        assert_eq!(id(&state, &runtime), (made.clone(), None));
        // What a disk has damaged is no id.
        fs::write(state.join("fleet/id"), "").unwrap();
        assert_eq!(id(&state, &runtime), (made.clone(), None));
        fs::remove_dir_all(folder.path().join("run")).unwrap();
        assert_eq!(id(&state, &runtime), (made, None));
    }

    #[test]
    fn without_a_disk_the_id_stays_until_a_reboot() {
        let folder = tempfile::tempdir().unwrap();
        let (state, runtime) = (folder.path().join("state"), folder.path().join("run"));
        fs::write(&state, "not a folder").unwrap();
        let (made, trouble) = id(&state, &runtime);
        assert!(trouble.unwrap().contains("state/fleet/id: "));
        assert_eq!(id(&state, &runtime).0, made);
    }

    #[test]
    fn the_next_helper_knows_the_lease() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = LeaseFile::new(folder.path());
        assert_eq!(file.lease(), None);
        file.set(Some(77));
        assert_eq!(LeaseFile::new(folder.path()).lease(), Some(77));
        file.set(None);
        assert_eq!(LeaseFile::new(folder.path()).lease(), None);
    }
}
