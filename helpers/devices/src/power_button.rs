//! The power button, which the kernel reports as a key of an input device: that of ACPI in a computer or a virtual machine, a
//! pin of an embedded computer, a key of a keyboard.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::device::Device;

/// `EV_KEY` of the kernel's `input-event-codes.h`.
const KEYS: u16 = 1;
/// `KEY_POWER`.
const POWER: u16 = 116;
/// The value of a key that goes down.
const DOWN: i32 = 1;
/// A `struct input_event`: the time, then type, code and value.
const EVENT: usize = size_of::<libc::input_event>();

/// `struct input_mask` of the kernel's `input.h`.
#[repr(C)]
#[derive(Debug)]
pub struct Mask {
    kind: u32,
    size: u32,
    bits: u64,
}

nix::ioctl_write_ptr!(set_mask, b'E', 0x93, Mask);

/// The input devices that have a power button, by their paths in sysfs.
#[derive(Debug, Default)]
pub struct PowerButtons(BTreeMap<String, File>);

impl PowerButtons {
    /// Opens the device, if it has such a button. `sys` and `dev`: where sysfs and the nodes are.
    ///
    /// # Errors
    /// When the node cannot be opened.
    pub fn add(&mut self, sys: &Path, dev: &Path, device: &Device) -> io::Result<()> {
        let Some(node) = device.node().filter(|node| node.starts_with("input/event")) else { return Ok(()) };
        let keys = device.attribute(sys, "capabilities/key").unwrap_or_default();
        if self.0.contains_key(&device.path) || !has_key(&keys, POWER) {
            return Ok(());
        }
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(dev.join(node))?;
        ignore_other_keys(&file)?;
        self.0.insert(device.path.clone(), file);
        Ok(())
    }

    pub fn remove(&mut self, path: &str) {
        self.0.remove(path);
    }

    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.values().map(|file| file.as_fd())
    }

    /// The path of a device whose button was pressed since the last look. A device that is gone is given up.
    pub fn pressed(&mut self) -> Option<String> {
        let mut pressed = None;
        self.0.retain(|path, file| {
            let mut buffer = [0; EVENT * 64];
            loop {
                match file.read(&mut buffer) {
                    Ok(0) => return false,
                    Ok(length) => {
                        if is_pressed(buffer.get(..length).unwrap_or_default()) {
                            pressed = Some(path.clone());
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return false,
                }
            }
        });
        pressed
    }
}

/// Has the kernel pass on no other key: this process never learns what is typed, and is not woken by it.
fn ignore_other_keys(file: &File) -> io::Result<()> {
    // Bits of 64 each, as the kernel counts them.
    let mut keys = [0_u64; 12];
    if let Some(word) = keys.get_mut(usize::from(POWER / 64)) {
        *word = 1 << (POWER % 64);
    }
    // Of kind 0, the mask is one of kinds.
    for (kind, bits) in [(0, &[1_u64 << KEYS][..]), (u32::from(KEYS), &keys)] {
        let size = u32::try_from(size_of_val(bits)).unwrap_or_default();
        let mask = Mask { kind, size, bits: bits.as_ptr() as u64 };
        // SAFETY: the kernel reads `size` bytes at `bits`, which live over the call.
        unsafe { set_mask(file.as_raw_fd(), &mask) }?;
    }
    Ok(())
}

/// Whether the attribute `capabilities/key` has a key: words of 64 bits, the first ones last.
fn has_key(attribute: &str, key: u16) -> bool {
    let word = attribute.split_whitespace().rev().nth(usize::from(key / 64));
    word.and_then(|word| u64::from_str_radix(word, 16).ok()).is_some_and(|word| word >> (key % 64) & 1 == 1)
}

fn is_pressed(events: &[u8]) -> bool {
    events.chunks_exact(EVENT).any(|event| {
        let Some([kind @ .., a, b, c, d]) = event.last_chunk::<8>() else { return false };
        let [kind_low, kind_high, code_low, code_high] = kind;
        u16::from_ne_bytes([*kind_low, *kind_high]) == KEYS
            && u16::from_ne_bytes([*code_low, *code_high]) == POWER
            && i32::from_ne_bytes([*a, *b, *c, *d]) == DOWN
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing::make;

    fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
        let mut bytes = vec![9; EVENT - 8];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes
    }

    #[test]
    fn only_the_power_key_going_down_counts() {
        assert!(is_pressed(&[event(0, 0, 0), event(KEYS, POWER, DOWN)].concat()));
        for (kind, code, value) in [(KEYS, POWER, 0), (KEYS, POWER, 2), (KEYS, 30, 1), (0, POWER, 1)] {
            assert!(!is_pressed(&event(kind, code, value)));
        }
        assert!(!is_pressed(&event(KEYS, POWER, DOWN)[1..]));
    }

    #[test]
    fn the_keys_of_a_device_are_words_in_reverse() {
        // An ACPI button, and a keyboard of a PC.
        assert!(has_key("10000000000000 0", POWER));
        assert!(has_key("402000000 3803078f800d001 feffffdfffefffff fffffffffffffffe", 1));
        assert!(!has_key("402000000 3803078f800d001 0 0", POWER));
        for attribute in ["", "0", "xyz 0", "fffffffffffffffff 0"] {
            assert!(!has_key(attribute, POWER), "{attribute}");
        }
    }

    #[test]
    fn a_device_without_the_key_is_not_opened() {
        let sys = tempfile::tempdir().unwrap();
        let path = "/devices/acpi/input0/event0";
        make(sys.path(), "/devices/acpi/input0", "input", "", &[("capabilities/key", "1 0")]);
        make(sys.path(), path, "input", "DEVNAME=input/event0\n", &[]);
        let mut buttons = PowerButtons::default();
        let mut device = Device::read(sys.path(), path).unwrap();
        buttons.add(sys.path(), Path::new("/nonexistent"), &device).unwrap();
        make(sys.path(), "/devices/acpi/input0", "", "", &[("capabilities/key", "10000000000000 0")]);
        assert!(buttons.add(sys.path(), Path::new("/nonexistent"), &device).is_err());
        device.put("DEVNAME", "input/mouse0");
        buttons.add(sys.path(), Path::new("/nonexistent"), &device).unwrap();
        assert_eq!(buttons.descriptors().count(), 0);
    }
}
