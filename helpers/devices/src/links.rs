//! The links below `/dev` that lead to nodes by other names, such as `/dev/disk/by-label/DATA`.
//!
//! Several devices may claim one name. The first that came has it until it goes, so no disk that is plugged in later takes
//! the name of another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The folders of which Kelson makes all links.
pub const FOLDERS: [&str; 6] = [
    "disk/by-id",
    "disk/by-label",
    "disk/by-partlabel",
    "disk/by-partuuid",
    "disk/by-serial",
    "disk/by-uuid",
];

/// All links.
#[derive(Debug)]
pub struct Links {
    dev: PathBuf,
    /// By the name of the link: the devices that claim it, in the order in which they came, each with its node.
    claims: BTreeMap<String, Vec<(String, String)>>,
}

impl Links {
    /// `dev`: where nodes are.
    pub fn new(dev: &Path) -> Links {
        Links { dev: dev.to_owned(), claims: BTreeMap::new() }
    }

    /// The device of this path, with this node, claims these names and no others. Returns what could not be done.
    pub fn claim(&mut self, path: &str, node: &str, names: &BTreeSet<String>) -> Vec<String> {
        let mut changed = BTreeSet::new();
        for (name, claims) in &mut self.claims {
            let before = claims.len();
            claims
                .retain(|(claimant, claimed)| claimant != path || (claimed == node && names.contains(name)));
            if claims.len() != before {
                changed.insert(name.clone());
            }
        }
        for name in names {
            let claims = self.claims.entry(name.clone()).or_default();
            if !claims.iter().any(|(claimant, _)| claimant == path) {
                claims.push((path.to_owned(), node.to_owned()));
            }
        }
        // Also those that are as before: somebody may have removed a link.
        changed.extend(names.iter().cloned());
        let settled = changed.iter().filter_map(|name| {
            let done = self.settle(name);
            done.err().map(|error| format!("{}: {error}", self.dev.join(name).display()))
        });
        let failures = settled.collect();
        self.claims.retain(|_, claims| !claims.is_empty());
        failures
    }

    /// The device is gone.
    pub fn forget(&mut self, path: &str) -> Vec<String> {
        self.claim(path, "", &BTreeSet::new())
    }

    /// Removes the links of an earlier run that no device claims: all others in [`FOLDERS`], and these.
    pub fn sweep(&self, others: impl Iterator<Item = String>) {
        let listed = FOLDERS.iter().flat_map(|folder| {
            let entries = fs::read_dir(self.dev.join(folder)).into_iter().flatten().flatten();
            entries.map(move |entry| format!("{folder}/{}", entry.file_name().to_string_lossy()))
        });
        for name in listed.chain(others).filter(|name| !self.claims.contains_key(name)) {
            let _ = remove(&self.dev.join(name));
        }
    }

    /// Makes the link lead to its first claimant.
    fn settle(&self, name: &str) -> io::Result<()> {
        let link = self.dev.join(name);
        let Some((_, node)) = self.claims.get(name).and_then(|claims| claims.first()) else {
            return remove(&link);
        };
        let up = "../".repeat(name.matches('/').count());
        let target = PathBuf::from(format!("{up}{node}"));
        match fs::symlink_metadata(&link) {
            Ok(found) if !found.is_symlink() => {
                return Err(io::Error::other("it is there, and no link; choose another name"));
            }
            Ok(_) if fs::read_link(&link)? == target => return Ok(()),
            _ => {}
        }
        let folder = link.parent().unwrap_or(&self.dev);
        fs::create_dir_all(folder)?;
        // Moved into its place, so that nobody sees the name without a link.
        let new = folder.join(".kelson-devices");
        remove(&new)?;
        symlink(&target, &new)?;
        fs::rename(&new, &link)
    }
}

/// Removes a link, and nothing else.
fn remove(link: &Path) -> io::Result<()> {
    match fs::symlink_metadata(link) {
        Ok(found) if found.is_symlink() => fs::remove_file(link),
        _ => Ok(()),
    }
}

/// The name of a link in a folder for a text that a stranger wrote, as udev writes it: any byte that is not plain stands as
/// `\x20`. `None`: it gives no name.
pub fn plain(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || "#+-.:=@_".contains(letter) {
            name.push(letter);
        } else {
            let mut buffer = [0; 4];
            for byte in letter.encode_utf8(&mut buffer).bytes() {
                name.push_str(&format!("\\x{byte:02x}"));
            }
        }
    }
    (!matches!(name.as_str(), "" | "." | "..") && name.len() <= 255).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn target(dev: &Path, name: &str) -> Option<String> {
        fs::read_link(dev.join(name)).ok().map(|target| target.display().to_string())
    }

    #[test]
    fn the_first_claimant_has_the_name_until_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let dev = folder.path();
        let mut links = Links::new(dev);
        let label = "disk/by-label/DATA";
        assert_eq!(links.claim("/devices/a", "vda", &names(&[label, "main"])), [""; 0]);
        assert_eq!(links.claim("/devices/b", "vdb", &names(&[label])), [""; 0]);
        assert_eq!(target(dev, label).as_deref(), Some("../../vda"));
        assert_eq!(target(dev, "main").as_deref(), Some("vda"));
        // As often as it says so.
        links.claim("/devices/a", "vda", &names(&[label]));
        assert_eq!(target(dev, label).as_deref(), Some("../../vda"));
        assert_eq!(target(dev, "main"), None);
        links.forget("/devices/a");
        assert_eq!(target(dev, label).as_deref(), Some("../../vdb"));
        // Of another name now.
        links.claim("/devices/b", "vdc", &names(&[label]));
        assert_eq!(target(dev, label).as_deref(), Some("../../vdc"));
        links.forget("/devices/b");
        assert_eq!(target(dev, label), None);
        assert!(links.claims.is_empty());
        assert_eq!(fs::read_dir(dev.join("disk/by-label")).unwrap().count(), 0);
    }

    #[test]
    fn a_node_is_never_replaced_by_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let mut links = Links::new(folder.path());
        fs::write(folder.path().join("null"), "").unwrap();
        let failures = links.claim("/devices/a", "ttyS0", &names(&["null"]));
        assert!(failures[0].ends_with("it is there, and no link; choose another name"), "{failures:?}");
        links.forget("/devices/a");
        assert!(folder.path().join("null").is_file());
    }

    #[test]
    fn links_of_an_earlier_run_are_swept_away() {
        let folder = tempfile::tempdir().unwrap();
        let dev = folder.path();
        let mut before = Links::new(dev);
        before.claim("/devices/a", "vda", &names(&["disk/by-uuid/1", "disk/by-uuid/2", "gps", "other"]));
        let mut links = Links::new(dev);
        links.claim("/devices/b", "vdb", &names(&["disk/by-uuid/2"]));
        links.sweep(["gps".to_owned()].into_iter());
        assert_eq!(target(dev, "disk/by-uuid/1"), None);
        assert_eq!(target(dev, "disk/by-uuid/2").as_deref(), Some("../../vdb"));
        assert_eq!(target(dev, "gps"), None);
        assert!(target(dev, "other").is_some());
    }

    #[test]
    fn a_strange_label_makes_a_plain_name() {
        assert_eq!(plain("DATA_1").as_deref(), Some("DATA_1"));
        assert_eq!(plain("my disk/../é\\").as_deref(), Some("my\\x20disk\\x2f..\\x2f\\xc3\\xa9\\x5c"));
        for none in ["", ".", ".."] {
            assert_eq!(plain(none), None);
        }
        assert_eq!(plain(&" ".repeat(100)), None);
    }
}
