//! Making a file look like a disk: the kernel's loop devices.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::error::{At as _, Error, Result};

/// `LOOP_CTL_GET_FREE` and `LOOP_CONFIGURE` of the kernel's `loop.h`.
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const READ_ONLY: u32 = 1;
/// The device lets go of its file when the last mount of it has gone.
const AUTOCLEAR: u32 = 4;

/// `struct loop_config`, with only the flags of its `struct loop_info64`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    before: [u64; 5],
    numbers: [u32; 3],
    flags: u32,
    rest: [u64; 30],
}

// The kernel's form: a wrong field would be read as something else.
const _: () = assert!(size_of::<LoopConfig>() == 304 && std::mem::offset_of!(LoopConfig, flags) == 60);

/// A loop device for a file, read-only, that goes away with its last use.
///
/// # Errors
/// A sentence; most often the module `loop` is missing.
pub fn attach_read_only(path: &Path) -> Result<PathBuf> {
    let file = File::open(path).at(path.display())?;
    let control = File::open("/dev/loop-control")
        .map_err(|error| Error::Told(format!("/dev/loop-control: {error} (is the module loop loaded?)")))?;
    loop {
        // SAFETY: the descriptor is open, and this call takes no argument.
        let number = Errno::result(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) })
            .at("no free loop device")?;
        let device = PathBuf::from(format!("/dev/loop{number}"));
        match configure(&device, &file) {
            // Somebody was faster.
            Err(Errno::EBUSY) => {}
            done => {
                return done.map(|()| device.clone()).at(format!(
                    "{} for {}",
                    device.display(),
                    path.display()
                ));
            }
        }
    }
}

fn configure(device: &Path, file: &File) -> nix::Result<()> {
    let device =
        File::open(device).map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
    let fd = u32::try_from(file.as_raw_fd()).map_err(|_| Errno::EBADF)?;
    let flags = READ_ONLY | AUTOCLEAR;
    let config = LoopConfig { fd, block_size: 0, before: [0; 5], numbers: [0; 3], flags, rest: [0; 30] };
    // SAFETY: the descriptor is open, and the structure has the kernel's form and lives over the call. The device keeps
    // its own reference to the file; ours to the device must only live until it is mounted, see below.
    Errno::result(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &config) })?;
    // With AUTOCLEAR the last close gives the file back, also before the mount: this descriptor stays open until
    // `/sbin/init` is executed (it is close-on-exec).
    std::mem::forget(device);
    Ok(())
}
