//! The search for the one disk that has a name.
//!
//! A name that two disks have leads to neither: a clone of a disk, or a second partition of the same label, must not be
//! taken for the one that is meant.

use kelson_sys::ordered;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use kelson_spec::disk::NameKind;

use crate::device::{Device, SYS, below};
use crate::disk_names::{open, own_names, read_names};
use crate::links::plain;
use crate::superblock::identify;

/// How long a disk has to say which names it has. One that does not answer delays no other.
const ANSWER: Duration = Duration::from_secs(5);
/// Somebody made these who knows their names; and an empty CD drive only costs time.
const OTHERS: [&str; 5] = ["loop", "ram", "zram", "sr", "fd"];

/// Why a name leads to no disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoDisk {
    #[error("there is no such disk{}", not_looked_at(.silent))]
    Missing { silent: Vec<PathBuf> },
    #[error("{} have this name: give each another one, or remove all but one", listed(.0))]
    Several(Vec<PathBuf>),
}

/// The node of the only disk of the machine that has this name.
///
/// # Errors
/// When there is none, or more than one.
pub fn find_disk(kind: NameKind, name: &str) -> Result<PathBuf, NoDisk> {
    search(Path::new(SYS), Path::new("/dev"), kind, name)
}

/// `sys` and `dev`: where sysfs and the nodes are.
fn search(sys: &Path, dev: &Path, kind: NameKind, name: &str) -> Result<PathBuf, NoDisk> {
    let (mut found, silent) = bearers(sys, dev, kind, name);
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(NoDisk::Missing { silent }),
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            found.push(last);
            match are_one_file_system(&found) {
                // Mounting one of them mounts all.
                true => found.into_iter().next().ok_or(NoDisk::Missing { silent }),
                false => Err(NoDisk::Several(found)),
            }
        }
    }
}

/// The nodes of all disks and partitions that have the name, and of those that do not answer.
fn bearers(sys: &Path, dev: &Path, kind: NameKind, name: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let Some(wanted) = plain(name).map(|name| format!("disk/{}/{name}", kind.folder())) else {
        return (Vec::new(), Vec::new());
    };
    let is_wanted = move |name: &String| match kind {
        // Written in either case.
        NameKind::Uuid | NameKind::PartitionUuid => name.eq_ignore_ascii_case(&wanted),
        _ => *name == wanted,
    };
    let (sender, receiver) = channel();
    let mut waited_for = BTreeSet::new();
    for device in devices(sys) {
        let Some(node) = device.node().map(|node| dev.join(node)) else { continue };
        waited_for.insert(node.clone());
        let (sys, dev, is_wanted, sender) =
            (sys.to_owned(), dev.to_owned(), is_wanted.clone(), sender.clone());
        let look = move || {
            let names = match kind {
                NameKind::Serial | NameKind::Id => own_names(&sys, &device),
                _ => read_names(&sys, &dev, &device),
            };
            let _ = sender.send((node, names.iter().any(is_wanted)));
        };
        // Without a thread it counts as one that does not answer.
        let _ = thread::Builder::new().spawn(look);
    }
    drop(sender);
    let mut found = Vec::new();
    let deadline = Instant::now().checked_add(ANSWER);
    while !waited_for.is_empty() {
        let left = deadline.map_or(ANSWER, |at| at.saturating_duration_since(Instant::now()));
        let Ok((node, has)) = receiver.recv_timeout(left) else { break };
        waited_for.remove(&node);
        found.extend(has.then_some(node));
    }
    ordered::sort(&mut found);
    (found, waited_for.into_iter().collect())
}

/// The disks and partitions, but those of which another device is made: a mirror has the names of its halves, and is the
/// one that is meant.
fn devices(sys: &Path) -> Vec<Device> {
    let Ok(entries) = fs::read_dir(sys.join("class/block")) else { return Vec::new() };
    let paths = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let kind = name.to_string_lossy();
        !OTHERS.iter().any(|other| kind.starts_with(other) && is_number(&kind, other))
    });
    let paths = paths.filter_map(|entry| fs::canonicalize(entry.path()).ok());
    let root = fs::canonicalize(sys).unwrap_or_else(|_| sys.to_owned());
    let devices = paths.filter_map(|path| {
        let path = path.strip_prefix(&root).ok()?.to_str()?.to_owned();
        Device::read(sys, &format!("/{path}"))
    });
    devices.filter(|device| !has_entries(&below(sys, &device.path).join("holders"))).collect()
}

/// `fd0`, and not `fdisk`.
fn is_number(name: &str, kind: &str) -> bool {
    name.get(kind.len()..).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn has_entries(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Whether they are the members of one file system, each of them once.
fn are_one_file_system(disks: &[PathBuf]) -> bool {
    let look = |disk: &PathBuf| {
        let found = identify(&open(disk)?)?;
        Some((found.uuid, found.member?))
    };
    let Some(found) = disks.iter().map(look).collect::<Option<Vec<_>>>() else { return false };
    let (uuids, members): (BTreeSet<_>, BTreeSet<_>) = found.into_iter().unzip();
    uuids.len() == 1 && members.len() == disks.len()
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
}

fn not_looked_at(silent: &[PathBuf]) -> String {
    if silent.is_empty() { String::new() } else { format!("; {} did not answer", listed(silent)) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{FileExt as _, symlink};
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;
    use crate::device::testing::make;

    /// A machine with disks that are files.
    struct Machine(TempDir, TempDir);

    impl Machine {
        fn new() -> Machine {
            Machine(tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap())
        }

        /// Adds a disk of this serial number; returns its node.
        fn disk(&self, name: &str, serial: &str) -> PathBuf {
            let (sys, dev) = (self.0.path(), self.1.path());
            let path = format!("/devices/{name}/block/{name}");
            make(sys, &path, "block", &format!("DEVNAME={name}\n"), &[("size", "8192"), ("serial", serial)]);
            fs::create_dir_all(sys.join("class/block")).unwrap();
            symlink(format!("../..{path}"), sys.join("class/block").join(name)).unwrap();
            let node = dev.join(name);
            File::create(&node).unwrap().set_len(4 << 20).unwrap();
            node
        }

        fn ext4(&self, name: &str, serial: &str, label: &str) -> PathBuf {
            let node = self.disk(name, serial);
            let made =
                Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4", "-L", label]).arg(&node).status();
            assert!(made.unwrap().success());
            node
        }

        /// Adds a disk of a btrfs that lies on two.
        fn btrfs(&self, name: &str, member: u8) -> PathBuf {
            let node = self.disk(name, name);
            let file = File::options().write(true).open(&node).unwrap();
            for (at, bytes) in [
                (0x20, &[1; 16][..]),
                (0x40, b"_BHRfS_M"),
                (0x88, &[2]),
                (0x10B, &[member; 16]),
                (0x12B, b"pool"),
            ] {
                file.write_all_at(bytes, 65536 + at).unwrap();
            }
            node
        }

        fn find(&self, kind: NameKind, name: &str) -> Result<PathBuf, NoDisk> {
            search(self.0.path(), self.1.path(), kind, name)
        }
    }

    #[test]
    fn the_only_disk_of_a_name_is_found_and_of_two_both_are_named() {
        let machine = Machine::new();
        let (first, second) = (machine.ext4("vda", "ONE", "DATA"), machine.ext4("vdb", "TWO", "DATA"));
        let third = machine.ext4("vdc", "SAME", "OTHER");
        machine.disk("vdd", "SAME");
        assert_eq!(machine.find(NameKind::Label, "OTHER"), Ok(third));
        assert_eq!(machine.find(NameKind::Serial, "TWO"), Ok(second.clone()));
        assert_eq!(machine.find(NameKind::Id, "virtio-ONE"), Ok(first.clone()));
        let error = machine.find(NameKind::Label, "DATA").unwrap_err();
        let text = format!("{} and {} have this name: ", first.display(), second.display());
        assert!(error.to_string().starts_with(&text), "{error}");
        assert!(
            matches!(machine.find(NameKind::Serial, "SAME"), Err(NoDisk::Several(disks)) if disks.len() == 2)
        );
        for (kind, name) in [(NameKind::Label, "data"), (NameKind::Label, ""), (NameKind::Serial, "DATA")] {
            assert_eq!(machine.find(kind, name), Err(NoDisk::Missing { silent: Vec::new() }), "{name}");
        }
    }

    #[test]
    fn a_uuid_is_known_in_either_case() {
        let machine = Machine::new();
        let node = machine.disk("vda", "A");
        let uuid = "3f2c1d74-8d6a-4b7e-9c11-0a1b2c3d4e5f";
        let made = Command::new("/sbin/mke2fs").args(["-q", "-U", uuid]).arg(&node).status();
        assert!(made.unwrap().success());
        assert_eq!(machine.find(NameKind::Uuid, &uuid.to_uppercase()), Ok(node));
    }

    #[test]
    fn the_halves_of_a_mirror_are_not_meant() {
        let machine = Machine::new();
        let (half, mirror) = (machine.ext4("vda", "A", "DATA"), machine.ext4("md0", "", "DATA"));
        assert!(matches!(machine.find(NameKind::Label, "DATA"), Err(NoDisk::Several(_))));
        let sys = machine.0.path();
        fs::create_dir_all(sys.join("devices/vda/block/vda/holders/md0")).unwrap();
        assert_eq!(machine.find(NameKind::Label, "DATA"), Ok(mirror));
        assert!(half.exists());
    }

    #[test]
    fn the_disks_of_one_btrfs_are_one_and_its_clone_is_not() {
        let machine = Machine::new();
        let first = machine.btrfs("vda", 7);
        machine.btrfs("vdb", 8);
        assert_eq!(machine.find(NameKind::Label, "pool"), Ok(first));
        machine.btrfs("vdc", 7);
        assert!(
            matches!(machine.find(NameKind::Label, "pool"), Err(NoDisk::Several(disks)) if disks.len() == 3)
        );
    }

    #[test]
    fn one_that_does_not_answer_is_named() {
        let missing = NoDisk::Missing { silent: vec!["/dev/sdb".into()] };
        assert_eq!(missing.to_string(), "there is no such disk; /dev/sdb did not answer");
    }
}
