//! The hardware watchdog: what the kernel's `watchdog.h` says of it, and nothing that decides.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use crate::descriptor;

const TYPE: u32 = b'W' as u32;
const GET_SUPPORT: libc::Ioctl = libc::_IOR::<Info>(TYPE, 0);
const GET_BOOT_STATUS: libc::Ioctl = libc::_IOR::<libc::c_int>(TYPE, 2);
const SET_TIMEOUT: libc::Ioctl = libc::_IOWR::<libc::c_int>(TYPE, 6);
const GET_TIMEOUT: libc::Ioctl = libc::_IOR::<libc::c_int>(TYPE, 7);
/// `WDIOF_CARDRESET`: the device has started the machine.
const CARD_RESET: libc::c_int = 0x20;
/// The common beginning of the names of such devices.
const NAMES: &str = "/dev/watchdog";

/// `struct watchdog_info`
#[repr(C)]
struct Info {
    options: u32,
    firmware_version: u32,
    identity: [u8; 32],
}

// The kernel's size: a wrong field would be read as something else.
const _: () = assert!(std::mem::size_of::<Info>() == 40);

/// An open watchdog, which runs from the moment it is opened on. It is never closed: closing it leaves it armed
/// with nobody to feed it, or, on some kernels, lets it go.
#[derive(Debug)]
pub struct Device(ManuallyDrop<File>);

impl Device {
    /// Opens it, and so arms it.
    ///
    /// # Errors
    /// There is none (`NotFound`), somebody has it open (`ResourceBusy`), or it is no watchdog.
    pub fn open(path: &Path) -> io::Result<Device> {
        // Of a pipe that stands there somebody would have to read first.
        let file = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        match identity(file.as_fd()) {
            Ok(_) => Ok(Device(ManuallyDrop::new(file))),
            Err(_) => Err(io::Error::other("this is no watchdog")),
        }
    }

    /// One that an earlier incarnation of PID 1 has left open.
    pub fn inherited(descriptor: OwnedFd) -> Device {
        Device(ManuallyDrop::new(descriptor.into()))
    }

    /// One that this process has open: an earlier incarnation opened it, and nothing else is known of it.
    pub fn found() -> Option<Device> {
        let open = descriptor::open().into_iter().filter(|(_, file)| is_device(file));
        open.map(|(number, _)| number).find_map(|number| {
            // SAFETY: it was open a moment ago. Should it be another by now, then that one is asked what it is.
            let known = unsafe { BorrowedFd::borrow_raw(number) };
            identity(known).ok()?;
            // A second descriptor of the same: if another owner closes the one that was found, nothing is released.
            known.try_clone_to_owned().ok().map(Device::inherited)
        })
    }

    /// The name that the device gives itself.
    pub fn identity(&self) -> String {
        identity(self.0.as_fd()).unwrap_or_else(|_| "a watchdog".to_owned())
    }

    /// Asks for a timeout; the device may take another, or none.
    ///
    /// # Errors
    /// When it cannot be set, or not to this.
    pub fn set_timeout(&self, timeout: Duration) -> nix::Result<()> {
        let mut seconds = libc::c_int::try_from(timeout.as_secs()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the descriptor is open, and the number lives over the call.
        Errno::result(unsafe { libc::ioctl(self.0.as_raw_fd(), SET_TIMEOUT, &raw mut seconds) }).map(drop)
    }

    /// After so long without food it starts the machine again. `None`: it does not tell.
    pub fn timeout(&self) -> Option<Duration> {
        let seconds = self.number(GET_TIMEOUT)?;
        u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    /// Whether it has ended the run of the machine before this one, as far as it remembers.
    pub fn has_reset(&self) -> bool {
        self.number(GET_BOOT_STATUS).is_some_and(|status| status & CARD_RESET != 0)
    }

    fn number(&self, what: libc::Ioctl) -> Option<libc::c_int> {
        let mut number: libc::c_int = 0;
        // SAFETY: the descriptor is open, and the number, of the kernel's size, lives over the call.
        Errno::result(unsafe { libc::ioctl(self.0.as_raw_fd(), what, &raw mut number) }).ok()?;
        Some(number)
    }

    /// Keeps the machine up for another timeout.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn feed(&self) -> io::Result<()> {
        let mut file: &File = &self.0;
        // Anything but a V.
        file.write_all(b"k")
    }

    /// Tells it that nobody will feed it any more, and lets it go. One whose driver has the option never to let go
    /// (`nowayout`) stays armed.
    pub fn disarm(&self) {
        let mut file: &File = &self.0;
        // Its answer changes nothing: this is the machine's end.
        let _ = file.write(b"V");
        // SAFETY: closed once, at the very end of PID 1; nobody uses the number after this.
        unsafe { libc::close(self.0.as_raw_fd()) };
    }
}

/// Whether an open file is such a device, by its name.
pub fn is_device(file: &Path) -> bool {
    file.to_str().is_some_and(|name| name.starts_with(NAMES))
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn identity(device: BorrowedFd<'_>) -> nix::Result<String> {
    let mut info = Info { options: 0, firmware_version: 0, identity: [0; 32] };
    // SAFETY: the descriptor is open, and the structure has the kernel's form and lives over the call.
    Errno::result(unsafe { libc::ioctl(device.as_raw_fd(), GET_SUPPORT, &raw mut info) })?;
    let name = info.identity.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_watchdog_is_not_taken_for_one() {
        let refused = Device::open(Path::new("/dev/null")).unwrap_err();
        assert_eq!(refused.to_string(), "this is no watchdog");
        let missing = Device::open(Path::new("/dev/no-such-watchdog")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(Device::found().is_none());
    }

    /// The numbers of the kernel's header on the machines that we build for.
    #[test]
    fn calls_have_the_kernels_numbers() {
        let numbers = [GET_SUPPORT, GET_BOOT_STATUS, SET_TIMEOUT, GET_TIMEOUT];
        assert_eq!(numbers, [0x8028_5700, 0x8004_5702, 0xC004_5706, 0x8004_5707]);
    }
}
