//! Making a file look like a disk: the kernel's loop devices.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// `LOOP_CTL_GET_FREE` and `LOOP_CONFIGURE` of the kernel's `loop.h`.
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const READ_ONLY: u32 = 1;
/// The device lets go of its file when the last mount of it has gone.
const AUTOCLEAR: u32 = 4;

/// `struct loop_info64`
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

// The kernel's sizes: a wrong field would be read as something else.
const _: () = assert!(std::mem::size_of::<LoopInfo>() == 232);
const _: () = assert!(std::mem::size_of::<LoopConfig>() == 304);

/// A loop device for a file, read-only, that goes away with its last use.
///
/// # Errors
/// A sentence; most often the module `loop` is missing.
pub fn attach_read_only(path: &Path) -> Result<PathBuf, String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let control = File::open("/dev/loop-control")
        .map_err(|error| format!("/dev/loop-control: {error} (is the module loop loaded?)"))?;
    loop {
        // SAFETY: the descriptor is open, and this call takes no argument.
        let number = Errno::result(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) })
            .map_err(|errno| format!("no free loop device: {}", errno.desc()))?;
        let device = PathBuf::from(format!("/dev/loop{number}"));
        match configure(&device, &file) {
            // Somebody was faster.
            Err(Errno::EBUSY) => {}
            Err(errno) => {
                return Err(format!("{} for {}: {}", device.display(), path.display(), errno.desc()));
            }
            Ok(()) => return Ok(device),
        }
    }
}

fn configure(device: &Path, file: &File) -> nix::Result<()> {
    let device =
        File::open(device).map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
    let info = LoopInfo {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: READ_ONLY | AUTOCLEAR,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let fd = u32::try_from(file.as_raw_fd()).map_err(|_| Errno::EBADF)?;
    let config = LoopConfig { fd, block_size: 0, info, reserved: [0; 8] };
    // SAFETY: the descriptor is open, and the structure has the kernel's form and lives over the call. The device keeps
    // its own reference to the file; ours to the device must only live until it is mounted, see below.
    Errno::result(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &config) })?;
    // With AUTOCLEAR the last close gives the file back, also before the mount: this descriptor stays open until
    // `/sbin/init` is executed (it is close-on-exec).
    std::mem::forget(device);
    Ok(())
}
