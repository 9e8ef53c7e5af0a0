//! Swap: on disks, in files, and in compressed memory.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use kelson_devices::modules;
use nix::errno::Errno;

use crate::failure::at;

/// The header of a swap area takes one page.
const PAGE: u64 = 4096;
/// The kernel uses no area of less.
const LEAST_PAGES: u64 = 10;
/// `SWAP_FLAG_PREFER` and `SWAP_FLAG_PRIO_MASK` of the kernel's `swap.h`.
const PREFER: u32 = 0x8000;
const MOST_PRIORITY: u32 = 0x7fff;

/// Has the kernel use a swap area.
///
/// # Errors
/// A sentence, when it does not.
pub fn enable(device: &Path, priority: Option<u32>) -> Result<String, String> {
    let path = c_string(device)?;
    let flags = priority.map_or(0, |priority| PREFER | priority.min(MOST_PRIORITY));
    // SAFETY: a C string that lives over the call, and a number.
    let result = unsafe { libc::swapon(path.as_ptr(), flags.cast_signed()) };
    match Errno::result(result) {
        Ok(_) => Ok(device.display().to_string()),
        // A previous incarnation of PID 1 had it turned on.
        Err(Errno::EBUSY) => Ok(format!("{} was used already", device.display())),
        Err(errno) => Err(at(device, errno.desc())),
    }
}

/// Has the kernel take back what is in a swap area.
///
/// # Errors
/// A sentence, when it does not.
pub fn disable(device: &Path) -> Result<String, String> {
    let path = c_string(device)?;
    // SAFETY: a C string that lives over the call.
    let result = unsafe { libc::swapoff(path.as_ptr()) };
    Errno::result(result).map(|_| String::new()).map_err(|errno| at(device, errno.desc()))
}

/// Writes the header of a swap area onto a disk of this size.
///
/// # Errors
/// When the disk is too small, or cannot be written.
pub fn write_header(disk: &fs::File, size: u64) -> io::Result<()> {
    let pages = size.checked_div(PAGE).unwrap_or_default();
    if pages < LEAST_PAGES {
        return Err(io::Error::other("it is too small for swap"));
    }
    let last = u32::try_from(pages.saturating_sub(1)).unwrap_or(u32::MAX);
    let mut uuid = [0; 16];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut uuid)
        .map_err(|_| io::Error::other("no random numbers"))?;
    // Version 1, the last page, no bad pages; behind them the UUID. The magic number stands at the end of the page, and is
    // written last: an area without it is none.
    let head = [&1_u32.to_le_bytes()[..], &last.to_le_bytes(), &0_u32.to_le_bytes(), &uuid].concat();
    disk.write_all_at(&head, 1024)?;
    disk.sync_data()?;
    disk.write_all_at(b"SWAPSPACE2", PAGE.saturating_sub(10))?;
    disk.sync_data()
}

/// Makes a device of compressed memory with a swap area, of `percent` of the memory.
///
/// # Errors
/// A sentence that names what failed.
pub fn make_zram(percent: u32, algorithm: Option<&str>) -> Result<String, String> {
    let control = Path::new("/sys/class/zram-control/hot_add");
    if !control.exists() {
        modules::load(&["zram".to_owned()])?;
    }
    // Reading makes a device, and gives its number.
    let number = fs::read_to_string(control).map_err(|error| at(control, error))?;
    let name = format!("zram{}", number.trim());
    let (folder, device) = (Path::new("/sys/block").join(&name), PathBuf::from("/dev").join(&name));
    let write = |file: &str, text: &str| {
        let path = folder.join(file);
        fs::write(&path, text).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => {
                let known = fs::read_to_string(&path).unwrap_or_default();
                at(&path, format!("{text} is not known to this kernel; it knows {}", known.trim()))
            }
            _ => at(&path, error),
        })
    };
    if let Some(algorithm) = algorithm {
        write("comp_algorithm", algorithm)?;
    }
    let size = size_of(memory().map_err(|errno| errno.desc().to_owned())?, percent);
    write("disksize", &size.to_string())?;
    let disk =
        fs::File::options().read(true).write(true).open(&device).map_err(|error| at(&device, error))?;
    write_header(&disk, size).map_err(|error| at(&device, error))?;
    Ok(device.display().to_string())
}

/// The memory of the machine in bytes.
fn memory() -> nix::Result<u64> {
    Ok(nix::sys::sysinfo::sysinfo()?.ram_total())
}

/// A part of the memory, in whole pages.
fn size_of(memory: u64, percent: u32) -> u64 {
    let pages = memory.checked_div(PAGE).unwrap_or_default();
    let part = pages.saturating_mul(u64::from(percent)).checked_div(100).unwrap_or_default();
    part.saturating_mul(PAGE)
}

fn c_string(path: &Path) -> Result<CString, String> {
    CString::new(path.as_os_str().as_bytes()).map_err(|error| at(path, error))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use kelson_devices::identify;

    use super::*;

    #[test]
    fn the_header_is_that_of_mkswap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("swap");
        let disk = fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        disk.set_len(1 << 20).unwrap();
        write_header(&disk, 1 << 20).unwrap();
        let found = identify(&disk).unwrap();
        assert_eq!(found.fs_type, "swap");
        let own = found.uuid.unwrap();
        let ours = fs::read(&path).unwrap();
        let made = Command::new("/sbin/mkswap").args(["-q", "-U", &own]).arg(&path).status().unwrap();
        assert!(made.success());
        assert!(fs::read(&path).unwrap() == ours);
        assert!(write_header(&disk, 9 * PAGE).unwrap_err().to_string().contains("too small"));
    }

    #[test]
    fn a_part_of_the_memory_is_in_whole_pages() {
        assert_eq!(size_of(1 << 30, 50), 1 << 29);
        assert_eq!(size_of(100 * PAGE + 1, 33), 33 * PAGE);
        assert_eq!(size_of(1 << 60, 300) % PAGE, 0);
        assert!(memory().unwrap() > 1 << 20);
    }

    #[test]
    fn what_is_no_swap_is_refused() {
        let error = enable(Path::new("/no/such"), Some(3)).unwrap_err();
        assert!(error.starts_with("/no/such: "), "{error}");
        assert!(disable(Path::new("/no/such")).unwrap_err().starts_with("/no/such: "));
    }
}
