//! The drivers of the devices that are there already: before the machine mounts its disks and sets up its network.

use std::collections::BTreeSet;
use std::path::Path;

use kelson_sys::kernel_log;

use crate::device::{self, SYS};
use crate::drivers::Drivers;
use crate::firmware::FirmwareLog;

/// A driver may find devices, which need drivers: of a controller, a bus, a disk. More levels than there are.
const LEVELS: usize = 16;

/// Loads the modules for all devices of the machine. A device that takes its time is left to the service.
///
/// # Errors
/// A sentence, when a module failed, the kernel's modules are not there, or firmware is missing.
pub fn load_drivers() -> Result<String, String> {
    let drivers = Drivers::of_running_kernel().map_err(|error| error.to_string())?;
    // Also what the drivers of the kernel itself have asked for is reported.
    let mut firmware = FirmwareLog::of(kernel_log::reader());
    let (mut done, mut loaded, mut failures) = (BTreeSet::new(), Vec::new(), Vec::new());
    for _ in 0..LEVELS {
        let new: Vec<String> = aliases(Path::new(SYS)).difference(&done).cloned().collect();
        if new.is_empty() {
            break;
        }
        for alias in new {
            failures.extend(drivers.load(&alias, &mut loaded).iter().map(ToString::to_string));
            done.insert(alias);
        }
    }
    let missing = firmware.iter_mut().flat_map(FirmwareLog::new_ones);
    failures.extend(missing.map(|missing| missing.to_string()));
    let said = if loaded.is_empty() { "none is new".to_owned() } else { loaded.join(" ") };
    if failures.is_empty() { Ok(said) } else { Err(format!("{}; loaded: {said}", failures.join("; "))) }
}

/// The aliases of all devices.
fn aliases(sys: &Path) -> BTreeSet<String> {
    device::all(sys).iter().filter_map(|device| device.get("MODALIAS")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing::make;

    #[test]
    fn each_alias_is_there_once() {
        let sys = tempfile::tempdir().unwrap();
        make(sys.path(), "/devices/a", "pci", "MODALIAS=pci:1\n", &[]);
        make(sys.path(), "/devices/a/b", "virtio", "", &[("modalias", "virtio:1")]);
        make(sys.path(), "/devices/c", "pci", "MODALIAS=pci:1\n", &[]);
        assert_eq!(aliases(sys.path()).into_iter().collect::<Vec<_>>(), ["pci:1", "virtio:1"]);
    }
}
