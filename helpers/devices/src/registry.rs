//! All devices that are there, and what is under way for each.

use kelson_sys::ordered;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_helper::log::line;
use kelson_spec::devices::DeviceRule;

use crate::device::{self, Device};
use crate::disk_names;
use crate::drivers::Drivers;
use crate::jobs::Jobs;
use crate::links::Links;
use crate::power_button::PowerButtons;
use crate::rules::{self, Treatment};

/// How many devices are looked at in the same time.
const LOOKS: usize = 8;

pub struct Registry {
    sys: PathBuf,
    dev: PathBuf,
    rules: Arc<[DeviceRule]>,
    /// The devices that have a node, by their paths, each with the number of its last message.
    present: BTreeMap<String, u64>,
    last: u64,
    links: Links,
    pub buttons: PowerButtons,
    looks: Jobs<Look>,
    /// One after the other, as modprobe does.
    drivers: Jobs<Vec<String>>,
    /// The aliases of devices for which drivers are yet to be loaded.
    wanted: BTreeSet<String>,
    /// The last thing that was said of drivers.
    said: Vec<String>,
}

/// What a look at a device found.
struct Look {
    device: Device,
    number: u64,
    treatment: Treatment,
}

impl Registry {
    /// `sys` and `dev`: where sysfs and the nodes are.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn new(sys: &Path, dev: &Path, rules: Vec<DeviceRule>) -> io::Result<Registry> {
        Ok(Registry {
            sys: sys.to_owned(),
            dev: dev.to_owned(),
            rules: rules.into(),
            present: BTreeMap::new(),
            last: 0,
            links: Links::new(dev),
            buttons: PowerButtons::default(),
            looks: Jobs::new(LOOKS)?,
            drivers: Jobs::new(1)?,
            wanted: BTreeSet::new(),
            said: Vec::new(),
        })
    }

    /// Looks at all of sysfs.
    pub fn scan(&mut self) {
        let found = device::all(&self.sys);
        let there = ordered::set(found.iter().map(|device| device.path.as_str()));
        let gone: Vec<String> =
            self.present.keys().filter(|path| !there.contains(path.as_str())).cloned().collect();
        gone.iter().for_each(|path| self.remove(path));
        found.into_iter().for_each(|device| self.put(device));
    }

    /// The device is there, or something about it is another.
    pub fn put(&mut self, device: Device) {
        self.wanted.extend(device.get("MODALIAS").map(str::to_owned));
        if device.node().is_none() {
            return;
        }
        self.last = self.last.wrapping_add(1);
        let number = self.last;
        self.present.insert(device.path.clone(), number);
        if device.subsystem == "input"
            && let Err(error) = self.buttons.add(&self.sys, &self.dev, &device)
        {
            line(format_args!("{}: its power button is not followed: {error}", device.path));
        }
        let is_disk = device.subsystem == "block";
        if is_disk || rules::concern(&self.rules, &device) {
            let (sys, dev, rules) = (self.sys.clone(), self.dev.clone(), Arc::clone(&self.rules));
            self.looks.push(move || {
                let mut treatment = rules::apply(&rules, &sys, &device);
                if is_disk {
                    treatment.links.extend(disk_names::names(&sys, &dev, &device));
                }
                Look { device, number, treatment }
            });
        }
    }

    /// The device is gone.
    pub fn remove(&mut self, path: &str) {
        if self.present.remove(path).is_some() {
            self.buttons.remove(path);
            report(self.links.forget(path));
        }
    }

    /// Takes what the jobs have found, and begins with the drivers that are wanted.
    pub fn take_outcomes(&mut self) {
        while let Some(Look { device, number, treatment }) = self.looks.take() {
            // It is gone, or a later look is under way.
            if self.present.get(&device.path) != Some(&number) {
                continue;
            }
            if let Err(error) = rules::set_permissions(&self.dev, &device, &treatment) {
                line(format_args!("{}: the rules were not applied: {error}", device.path));
            }
            report(self.links.claim(&device.path, device.node().unwrap_or_default(), &treatment.links));
        }
        while let Some(said) = self.drivers.take() {
            // A module that fails does so at each device of its kind.
            if said != self.said {
                said.iter().for_each(line);
                self.said = said;
            }
        }
        if !self.wanted.is_empty() && self.drivers.is_idle() {
            let wanted = std::mem::take(&mut self.wanted);
            self.drivers.push(move || load(&wanted));
        }
    }

    /// Whether nothing is under way.
    pub fn is_settled(&self) -> bool {
        self.wanted.is_empty() && self.drivers.is_idle() && self.looks.is_idle()
    }

    /// Removes the links of an earlier run that no device claims.
    pub fn sweep(&self) {
        self.links.sweep(self.rules.iter().filter_map(|rule| rule.link.clone()));
    }

    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.buttons.descriptors().chain([self.looks.as_fd(), self.drivers.as_fd()])
    }
}

fn report(failures: Vec<String>) {
    failures.iter().for_each(line);
}

/// Loads the drivers for these aliases; returns what is to be said of it.
fn load(aliases: &BTreeSet<String>) -> Vec<String> {
    // Read for each batch: between them the lists would take megabytes for nothing.
    let drivers = match Drivers::of_running_kernel() {
        Ok(drivers) => drivers,
        Err(error) => return vec![format!("no driver is loaded: {error}")],
    };
    let mut loaded = Vec::new();
    let failures = ordered::set(
        aliases.iter().flat_map(|alias| drivers.load(alias, &mut loaded)).map(|error| error.to_string()),
    );
    let new = (!loaded.is_empty()).then(|| format!("loaded {}", loaded.join(" ")));
    new.into_iter().chain(failures).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;
    use crate::device::testing::make;

    /// Waits for all looks.
    fn settle(registry: &mut Registry) {
        while !registry.looks.is_idle() {
            registry.take_outcomes();
            thread::yield_now();
        }
    }

    #[test]
    fn names_come_and_go_with_their_devices() {
        let (sys, dev) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let disk = "/devices/virtio1/block/vda";
        let part = format!("{disk}/vda1");
        make(sys.path(), disk, "block", "DEVNAME=vda\n", &[("size", "8")]);
        make(sys.path(), &part, "block", "DEVNAME=vda1\nPARTN=1\nPARTNAME=DATA\n", &[("size", "7")]);
        let label = dev.path().join("disk/by-partlabel/DATA");
        fs::create_dir_all(label.parent().unwrap()).unwrap();
        let stale = label.with_file_name("OLD");
        std::os::unix::fs::symlink("../../vdz", &stale).unwrap();

        let rules = vec![DeviceRule::from_word("subsystem=block name=vda link=first").unwrap()];
        let mut registry = Registry::new(sys.path(), dev.path(), rules).unwrap();
        registry.scan();
        assert!(!registry.is_settled());
        settle(&mut registry);
        assert!(registry.is_settled());
        registry.sweep();
        assert_eq!(fs::read_link(&label).unwrap(), Path::new("../../vda1"));
        assert_eq!(fs::read_link(dev.path().join("first")).unwrap(), Path::new("vda"));
        assert!(fs::symlink_metadata(&stale).is_err());

        // Its message is lost; the next look at all finds out.
        fs::remove_dir_all(device::below(sys.path(), &part)).unwrap();
        registry.scan();
        settle(&mut registry);
        assert!(fs::symlink_metadata(&label).is_err());
        assert!(fs::symlink_metadata(dev.path().join("first")).is_ok());
    }

    #[test]
    fn a_look_at_a_device_that_is_gone_by_then_makes_no_link() {
        let (sys, dev) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = "/devices/usb1/ttyUSB0";
        make(sys.path(), path, "tty", "DEVNAME=ttyUSB0\n", &[]);
        let rules = vec![DeviceRule::from_word("subsystem=tty name=ttyUSB* link=gps").unwrap()];
        let mut registry = Registry::new(sys.path(), dev.path(), rules).unwrap();
        let device = Device::read(sys.path(), path).unwrap();
        registry.put(device.clone());
        registry.remove(path);
        settle(&mut registry);
        assert!(fs::symlink_metadata(dev.path().join("gps")).is_err());
        registry.put(device);
        settle(&mut registry);
        assert!(fs::symlink_metadata(dev.path().join("gps")).is_ok());
    }
}
