//! Devices of the device mapper.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use kelson_spec::encryption::MAPPINGS;
use nix::errno::Errno;

use crate::failure::at;

const CONTROL: &str = "/dev/mapper/control";
const SYS: &str = "/sys/class/block";
/// The first version of the interface that is still the present one.
const VERSION: [u32; 3] = [4, 0, 0];

/// `struct dm_ioctl` of the kernel's `dm-ioctl.h`.
#[repr(C)]
struct Message {
    version: [u32; 3],
    size: u32,
    start: u32,
    targets: u32,
    open_count: i32,
    flags: u32,
    event: u32,
    padding: u32,
    device: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

// DM_DEV_REMOVE.
nix::ioctl_readwrite!(dm_remove, 0xFD, 4, Message);

/// Takes away a device, unless something uses it.
///
/// # Errors
/// A sentence, when it stays.
pub fn remove(name: &str) -> Result<String, String> {
    let node = Path::new(MAPPINGS).join(name);
    let mut message = Message {
        version: VERSION,
        size: u32::try_from(size_of::<Message>()).unwrap_or(0),
        start: 0,
        targets: 0,
        open_count: 0,
        flags: 0,
        event: 0,
        padding: 0,
        device: 0,
        name: [0; 128],
        uuid: [0; 129],
        data: [0; 7],
    };
    // The last byte stays zero.
    if name.len() >= message.name.len() {
        return Err(at(&node, "the name is too long"));
    }
    message.name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    let control = Path::new(CONTROL);
    let file = File::options().read(true).write(true).open(control).map_err(|error| at(control, error))?;
    // SAFETY: the descriptor is open, and the kernel reads and writes the message, whose size it has.
    match unsafe { dm_remove(file.as_raw_fd(), &raw mut message) } {
        // ENXIO: it was taken away meanwhile.
        Ok(_) | Err(Errno::ENXIO) => {
            // Nobody else takes the node away where there is no udev.
            let _ = fs::remove_file(&node);
            Ok(String::new())
        }
        Err(Errno::EBUSY) => Err(at(&node, "something uses it")),
        Err(errno) => Err(at(&node, errno.desc())),
    }
}

/// Has the kernel report a device again. It has done so before the node had its name, and who waits for the name has looked
/// in vain.
pub fn announce(name: &str) {
    let Ok(devices) = fs::read_dir(SYS) else { return };
    let is_it = |folder: &Path| {
        fs::read_to_string(folder.join("dm/name")).is_ok_and(|found| found.trim_end() == name)
    };
    for folder in devices.flatten().map(|entry| entry.path()).filter(|folder| is_it(folder)) {
        let _ = fs::write(folder.join("uevent"), "change");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_has_the_layout_of_the_kernel() {
        assert_eq!(size_of::<Message>(), 312);
        assert_eq!(std::mem::offset_of!(Message, device), 40);
        assert_eq!(std::mem::offset_of!(Message, name), 48);
    }

    #[test]
    fn a_name_that_no_device_can_have_is_refused() {
        let error = remove(&"a".repeat(128)).unwrap_err();
        assert!(error.ends_with("the name is too long"), "{error}");
    }
}
