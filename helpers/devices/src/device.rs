//! One device, as sysfs and the kernel's messages describe it.

use kelson_sys::ordered;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// sysfs.
pub const SYS: &str = "/sys";

/// No path of sysfs is deeper: the kernel's own paths have about ten parts.
const DEEPEST: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Below sysfs: `/devices/pci0000:00/…/block/vda`.
    pub path: String,
    /// `block`, `tty`, …; empty if it has none.
    pub subsystem: String,
    /// The variables of its messages: `DEVNAME`, `MODALIAS`, `PARTN`, …
    properties: BTreeMap<String, String>,
}

impl Device {
    /// A device of which only the path is known.
    pub fn new(path: &str) -> Device {
        Device { path: path.to_owned(), ..Device::default() }
    }

    /// Whether this is the path of a device below sysfs, without a part that leads elsewhere.
    pub fn is_path(path: &str) -> bool {
        path.starts_with("/devices/") && path.split('/').all(|part| part != "." && part != "..")
    }

    /// The device of this path. `None`: there is none, or it is gone.
    pub fn read(sys: &Path, path: &str) -> Option<Device> {
        let folder = below(sys, path);
        let text = fs::read(folder.join("uevent")).ok()?;
        let mut device = Device::new(path);
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some((name, value)) = line.split_once('=') {
                device.put(name, value);
            }
        }
        if let Ok(subsystem) = fs::read_link(folder.join("subsystem")) {
            device.subsystem = subsystem.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        // Some have a file of that name and no such variable.
        if device.get("MODALIAS").is_none()
            && let Some(alias) = attribute(&folder, "modalias")
        {
            device.put("MODALIAS", &alias);
        }
        Some(device)
    }

    pub fn put(&mut self, name: &str, value: &str) {
        self.properties.insert(name.to_owned(), value.to_owned());
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    /// The name of its node below `/dev`. `None`: it has no node.
    pub fn node(&self) -> Option<&str> {
        let sound =
            |name: &&str| !name.is_empty() && name.split('/').all(|part| !matches!(part, "" | "." | ".."));
        self.get("DEVNAME").filter(sound)
    }

    /// The numbers of its node.
    pub fn numbers(&self) -> Option<(u64, u64)> {
        Some((self.get("MAJOR")?.parse().ok()?, self.get("MINOR")?.parse().ok()?))
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The path of the device of which it is a part: of a partition, the disk.
    pub fn parent(&self) -> Option<&str> {
        self.path.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// An attribute of the device or of the nearest device above it that has one of this name.
    pub fn attribute(&self, sys: &Path, name: &str) -> Option<String> {
        let mut path = self.path.as_str();
        while path != "/devices" && !path.is_empty() {
            if let Some(value) = attribute(&below(sys, path), name) {
                return Some(value);
            }
            path = path.rsplit_once('/')?.0;
        }
        None
    }
}

/// The folder in sysfs of a path below it.
pub fn below(sys: &Path, path: &str) -> PathBuf {
    sys.join(path.trim_start_matches('/'))
}

/// The text of a file in a folder of sysfs, without spaces around it. `None`: there is no such file, or nothing in it.
pub fn attribute(folder: &Path, name: &str) -> Option<String> {
    let bytes = fs::read(folder.join(name)).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|byte: char| byte.is_whitespace() || byte == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// All devices, each after the one above it.
pub fn all(sys: &Path) -> Vec<Device> {
    let mut found = Vec::new();
    walk(sys, &sys.join("devices"), 0, &mut found);
    found
}

fn walk(sys: &Path, folder: &Path, depth: usize, found: &mut Vec<Device>) {
    if depth > DEEPEST {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut folders = Vec::new();
    for entry in entries.flatten() {
        // Links lead to other devices, which have a place of their own.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.path());
        } else if entry.file_name().as_bytes() == b"uevent" {
            let path = folder.strip_prefix(sys).unwrap_or(folder).to_string_lossy();
            found.extend(Device::read(sys, &format!("/{path}")));
        }
    }
    ordered::sort(&mut folders);
    for folder in folders {
        walk(sys, &folder, depth.saturating_add(1), found);
    }
}

#[cfg(test)]
pub mod testing {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Makes the folder of a device, with the lines of its `uevent` and its attributes.
    pub fn make(sys: &Path, path: &str, subsystem: &str, uevent: &str, attributes: &[(&str, &str)]) {
        let folder = below(sys, path);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("uevent"), uevent).unwrap();
        if !subsystem.is_empty() {
            symlink(format!("../../class/{subsystem}"), folder.join("subsystem")).unwrap();
        }
        for (name, value) in attributes {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{value}\n")).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::make;

    #[test]
    fn devices_are_found_from_the_top_down() {
        let sys = tempfile::tempdir().unwrap();
        let disk = "/devices/pci0/virtio1/block/vda";
        make(sys.path(), "/devices/pci0", "pci", "", &[("modalias", "pci:v1"), ("vendor", "0x1af4")]);
        make(sys.path(), disk, "block", "MAJOR=254\nMINOR=0\nDEVNAME=vda\n", &[("size", "8")]);
        make(sys.path(), &format!("{disk}/vda1"), "block", "DEVNAME=vda1\nPARTN=1\nPARTNAME=A=B\n", &[]);
        let found = all(sys.path());
        let names: Vec<&str> = found.iter().map(Device::name).collect();
        assert_eq!(names, ["pci0", "vda", "vda1"]);
        assert_eq!((found[0].get("MODALIAS"), found[0].node()), (Some("pci:v1"), None));
        assert_eq!((found[1].subsystem.as_str(), found[1].numbers()), ("block", Some((254, 0))));
        assert_eq!((found[2].get("PARTNAME"), found[2].parent()), (Some("A=B"), Some(disk)));
        assert_eq!(found[2].attribute(sys.path(), "vendor").as_deref(), Some("0x1af4"));
        assert_eq!(found[2].attribute(sys.path(), "serial"), None);
    }

    #[test]
    fn a_node_outside_of_dev_is_none() {
        for name in ["../etc/passwd", "a//b", "", "/x", "a/.."] {
            let mut device = Device::default();
            device.put("DEVNAME", name);
            assert_eq!(device.node(), None, "{name}");
        }
        let mut device = Device::default();
        device.put("DEVNAME", "bus/usb/001/002");
        assert_eq!(device.node(), Some("bus/usb/001/002"));
    }
}
