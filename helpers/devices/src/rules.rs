//! The rules of the machine file: owner, permissions and further names of a device.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use kelson_spec::devices::DeviceRule;
use kelson_sys::fnmatch::matches;

use crate::device::Device;

/// What the rules say of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Treatment {
    pub owner: Option<u32>,
    pub group: Option<u32>,
    pub mode: Option<u32>,
    /// Names of links below `/dev`.
    pub links: BTreeSet<String>,
}

/// Whether a rule may be for this device, as far as its message alone says.
pub fn concern(rules: &[DeviceRule], device: &Device) -> bool {
    rules.iter().any(|rule| is_for(rule, device))
}

/// All rules that are for this device, laid over each other. Reads attributes, which may wait for the device.
pub fn apply(rules: &[DeviceRule], sys: &Path, device: &Device) -> Treatment {
    let mut treatment = Treatment::default();
    let has = |(name, pattern): &(String, String)| {
        device.attribute(sys, name).is_some_and(|value| matches(pattern, &value))
    };
    for rule in rules.iter().filter(|rule| is_for(rule, device) && rule.attributes.iter().all(has)) {
        treatment.owner = rule.owner.or(treatment.owner);
        treatment.group = rule.group.or(treatment.group);
        treatment.mode = rule.mode.or(treatment.mode);
        treatment.links.extend(rule.link.clone());
    }
    treatment
}

fn is_for(rule: &DeviceRule, device: &Device) -> bool {
    let holds =
        |pattern: &Option<String>, text: &str| pattern.as_ref().is_none_or(|pattern| matches(pattern, text));
    matches(&rule.subsystem, &device.subsystem) && holds(&rule.name, device.node().unwrap_or_default())
}

/// Gives the node its owner and permissions. `dev`: where nodes are.
///
/// # Errors
/// What the kernel says, or that the node is another device by now.
pub fn set_permissions(dev: &Path, device: &Device, treatment: &Treatment) -> io::Result<()> {
    let Treatment { owner, group, mode, .. } = treatment;
    let Some(node) = device.node() else { return Ok(()) };
    if owner.is_none() && group.is_none() && mode.is_none() {
        return Ok(());
    }
    let path = dev.join(node);
    let found = fs::symlink_metadata(&path)?;
    let kind = found.file_type();
    let numbers = (u64::from(libc::major(found.rdev())), u64::from(libc::minor(found.rdev())));
    let is_device = kind.is_block_device() || kind.is_char_device();
    if !is_device || device.numbers().is_some_and(|own| own != numbers) {
        return Err(io::Error::other("it is another device by now"));
    }
    // Permissions first: with the owner goes the right to change them.
    if let Some(mode) = mode {
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
    }
    chown(&path, *owner, *group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing::make;

    fn rule(word: &str) -> DeviceRule {
        DeviceRule::from_word(word).unwrap()
    }

    #[test]
    fn later_rules_count_and_links_add_up() {
        let sys = tempfile::tempdir().unwrap();
        make(sys.path(), "/devices/usb1", "usb", "", &[("idVendor", "0403"), ("serial", "A6")]);
        make(sys.path(), "/devices/usb1/ttyUSB0", "tty", "DEVNAME=ttyUSB0\n", &[]);
        let device = Device::read(sys.path(), "/devices/usb1/ttyUSB0").unwrap();
        let rules = [
            rule("subsystem=tty group=20 mode=660"),
            rule("subsystem=tty name=ttyS* mode=600"),
            rule("subsystem=t* name=ttyUSB* mode=666 link=gps"),
            rule("subsystem=tty attribute:idVendor=04?? attribute:serial=A* owner=7 link=serial/one"),
            rule("subsystem=tty attribute:idVendor=0403 attribute:serial=B* owner=8"),
            rule("subsystem=tty attribute:none=* owner=9"),
        ];
        assert!(concern(&rules, &device));
        assert!(!concern(&rules[1..2], &device));
        let treatment = apply(&rules, sys.path(), &device);
        assert_eq!((treatment.owner, treatment.group, treatment.mode), (Some(7), Some(20), Some(0o666)));
        assert_eq!(treatment.links.iter().collect::<Vec<_>>(), ["gps", "serial/one"]);
    }

    #[test]
    fn a_file_that_is_no_device_is_left_alone() {
        let dev = tempfile::tempdir().unwrap();
        let mut device = Device::default();
        device.put("DEVNAME", "null");
        fs::write(dev.path().join("null"), "").unwrap();
        let treatment = Treatment { mode: Some(0o666), ..Treatment::default() };
        let error = set_permissions(dev.path(), &device, &treatment).unwrap_err();
        assert_eq!(error.to_string(), "it is another device by now");
        assert!(set_permissions(dev.path(), &device, &Treatment::default()).is_ok());
    }

    #[test]
    fn a_node_gets_its_owner_and_permissions() {
        use nix::sys::stat::{Mode, SFlag, makedev, mknod};

        let dev = tempfile::tempdir().unwrap();
        let path = dev.path().join("zero");
        // Not in a user namespace.
        if mknod(&path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o600), makedev(1, 5)).is_err() {
            return;
        }
        let mut device = Device::default();
        [("DEVNAME", "zero"), ("MAJOR", "1"), ("MINOR", "5")]
            .iter()
            .for_each(|(name, value)| device.put(name, value));
        let treatment =
            Treatment { owner: Some(7), group: Some(8), mode: Some(0o640), ..Treatment::default() };
        set_permissions(dev.path(), &device, &treatment).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (7, 8, 0o640));
        device.put("MINOR", "6");
        assert!(set_permissions(dev.path(), &device, &treatment).is_err());
    }
}
