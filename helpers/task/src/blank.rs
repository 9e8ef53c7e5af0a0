//! Whether a disk is blank, so that nothing is lost when it is formatted.
//!
//! A disk is blank only if every look at it succeeded: a read that fails is no proof of anything.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_devices::identify;
use kelson_devices::partition_table::PartitionTable;

use crate::disk;
use crate::failure::at;
use crate::program::{self, STANDARD_INPUT};
use crate::swap;

/// The ends of a disk, where tables of partitions, file systems, RAID and LVM leave their marks.
pub const END: u64 = 1 << 20;
/// One read.
const PIECE: usize = 64 << 10;

/// What tells a disk from every other that had or will have its name. A disk that is taken out and put in again has
/// another sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    sequence: u64,
    size: u64,
}

/// A disk that nobody else uses.
pub struct BlankDisk {
    pub path: PathBuf,
    file: File,
    identity: Identity,
}

impl BlankDisk {
    /// Takes the disk that `source` names for this process alone, and makes sure that it is blank.
    ///
    /// # Errors
    /// A sentence that says why it is not, or why that is not known.
    pub fn claim(source: &str) -> Result<BlankDisk, String> {
        let path = disk::find(source, Duration::ZERO)?;
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_EXCL | libc::O_NONBLOCK)
            .open(&path)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EBUSY) => at(&path, "it is in use: mounted, swap, or a part of another device"),
                _ => at(&path, error),
            })?;
        let identity = Identity::of(&file).map_err(|error| at(&path, error))?;
        let disk = BlankDisk { path, file, identity };
        disk.check(Path::new("/sys")).map_err(|why| at(&disk.path, why))?;
        // The name may have come to mean another disk before this one was opened.
        if disk::find(source, Duration::ZERO)? != disk.path || Identity::at(&disk.path) != Some(identity) {
            return Err(at(&disk.path, format!("{source} is another disk by now")));
        }
        Ok(disk)
    }

    fn check(&self, sys: &Path) -> Result<(), String> {
        let folder = self.identity.folder(sys);
        if has_entries(&folder.join("holders"))? {
            return Err("it is a part of another device".to_owned());
        }
        if let Some(partition) = partition_of(&folder)? {
            return Err(format!("it has partitions, such as {partition}"));
        }
        // What the kernel remembers of the disk is no look at it.
        // SAFETY: the descriptor is open, and this call takes no argument.
        unsafe { flush_buffers(self.file.as_raw_fd()) }.map_err(|errno| errno.desc().to_owned())?;
        check_ends(&self.file, self.identity.size)?;
        if let Some(found) = identify(&self.file) {
            return Err(format!("a {} is on it", found.fs_type));
        }
        check_by_blkid(&self.file, "")
    }

    /// Makes a swap area of the disk.
    ///
    /// # Errors
    /// A sentence, when the disk is too small or cannot be written.
    pub fn make_swap(&self) -> Result<String, String> {
        swap::write_header(&self.file, self.identity.size).map_err(|error| at(&self.path, error))?;
        Ok(format!("{} was blank, and is swap", self.path.display()))
    }

    /// Writes a table of partitions onto the disk.
    ///
    /// # Errors
    /// A sentence, when the disk cannot be written.
    pub fn write_table(&self, table: &PartitionTable) -> Result<(), String> {
        table.write(&self.file).map_err(|error| at(&self.path, error))
    }

    /// Gives up the claim, so that a program can make one of its own, and returns the disk. The descriptor stays open: until
    /// it is closed the kernel gives the number of the device to no other disk, and so the path `/proc/self/fd/N` leads to
    /// this disk, whatever its name means meanwhile, or to nothing.
    ///
    /// mkfs(8) opens the disk itself, and claims it: with a claim of this process it would find the disk in use.
    ///
    /// # Errors
    /// When it is no longer the disk that was looked at.
    pub fn release(self) -> Result<File, String> {
        let error = |error| at(&self.path, error);
        let file = File::options()
            .read(true)
            .open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
            .map_err(error)?;
        if Identity::of(&file).map_err(error)? != self.identity {
            return Err(at(&self.path, "it is another disk by now"));
        }
        Ok(file)
    }
}

/// Both ends were read, and are zero.
fn check_ends(disk: &File, size: u64) -> Result<(), String> {
    if size == 0 {
        return Err("it has no size".to_owned());
    }
    for start in [0, size.saturating_sub(END)] {
        let end = start.saturating_add(END).min(size);
        let mut at = start;
        while at < end {
            let length = usize::try_from(end.saturating_sub(at)).unwrap_or(PIECE).min(PIECE);
            let mut piece = vec![0; length];
            disk.read_exact_at(&mut piece, at).map_err(|error| {
                format!("it cannot be read at byte {at}, so it is not known to be blank: {error}")
            })?;
            if let Some(place) = piece.iter().position(|byte| *byte != 0) {
                return Err(format!("it is not blank: byte {} is not zero", at.saturating_add(place as u64)));
            }
            at = at.saturating_add(length as u64);
        }
    }
    Ok(())
}

/// libblkid, where the host has its program, knows more file systems than Kelson does. Nothing is on the disk but what is
/// `expected`.
pub fn check_by_blkid(disk: &File, expected: &str) -> Result<(), String> {
    /// Its status where it has found nothing. On a blank partition it has found the partition, and shows no type.
    const NOTHING: i32 = 2;
    let Some(blkid) = program::find("blkid") else { return Ok(()) };
    let types = ["-p", "-o", "value", "-s", "TYPE", "-s", "PTTYPE", STANDARD_INPUT];
    let ended = program::run(&blkid, &types, Some(disk))?;
    let other = ended.lines().find(|line| *line != expected);
    let (status, said) = (ended.status, other.unwrap_or_default());
    match status.code() {
        Some(0 | NOTHING) if said.is_empty() => Ok(()),
        Some(0) if expected.is_empty() => Err(format!("it is not blank: {} finds {said}", blkid.display())),
        Some(0) => Err(format!("{} finds {said} on it", blkid.display())),
        _ => Err(format!("{} -p: {status}: {}", blkid.display(), ended.last_line())),
    }
}

pub fn has_entries(folder: &Path) -> Result<bool, String> {
    let mut entries = fs::read_dir(folder).map_err(|error| at(folder, error))?;
    Ok(entries.next().is_some())
}

/// The name of a partition of the disk with this folder in sysfs.
fn partition_of(folder: &Path) -> Result<Option<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| at(folder, error))?;
    let mut partitions = entries.flatten().filter(|entry| entry.path().join("partition").exists());
    Ok(partitions.next().map(|entry| entry.file_name().to_string_lossy().into_owned()))
}

impl Identity {
    /// # Errors
    /// It is no disk, or cannot be asked.
    pub fn of(disk: &File) -> io::Result<Identity> {
        let metadata = disk.metadata()?;
        if !metadata.file_type().is_block_device() {
            return Err(io::Error::other("it is no disk"));
        }
        let descriptor = disk.as_raw_fd();
        let (mut size, mut sequence) = (0, 0);
        // SAFETY: the descriptor is open, and each call writes one number of 64 bits.
        unsafe {
            block_size(descriptor, &raw mut size)?;
            // Kernels before 5.15 do not count disks.
            if let Err(errno) = block_sequence(descriptor, &raw mut sequence)
                && errno != nix::errno::Errno::ENOTTY
            {
                return Err(errno.into());
            }
        }
        Ok(Identity { device: metadata.rdev(), sequence, size })
    }

    /// That of the disk with this node.
    pub fn at(path: &Path) -> Option<Identity> {
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
        Identity::of(&file).ok()
    }

    /// Its folder in sysfs.
    pub fn folder(&self, sys: &Path) -> PathBuf {
        sys.join(format!("dev/block/{}:{}", libc::major(self.device), libc::minor(self.device)))
    }

    /// In bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

nix::ioctl_read!(block_size, 0x12, 114, u64);
nix::ioctl_read!(block_sequence, 0x12, 128, u64);
nix::ioctl_none!(flush_buffers, 0x12, 97);

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(size: u64, set: Option<u64>) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        if let Some(place) = set {
            file.write_all_at(&[1], place).unwrap();
        }
        file
    }

    #[test]
    fn each_byte_of_both_ends_counts() {
        let size = 5 << 20;
        assert_eq!(check_ends(&disk(size, None), size), Ok(()));
        for place in [0, 512, END - 1, size - END, size - 1] {
            let error = check_ends(&disk(size, Some(place)), size).unwrap_err();
            assert_eq!(error, format!("it is not blank: byte {place} is not zero"));
        }
        assert_eq!(check_ends(&disk(size, Some(END)), size), Ok(()), "the middle is not read");
        // Smaller than its ends, and of a size that is no whole number of pieces.
        for size in [1, 512, 100_000, END + 1] {
            assert_eq!(check_ends(&disk(size, None), size), Ok(()));
            assert!(check_ends(&disk(size, Some(size - 1)), size).is_err(), "{size}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_blank() {
        let error = check_ends(&disk(END, None), 2 * END).unwrap_err();
        assert!(
            error.starts_with("it cannot be read at byte 1048576, so it is not known to be blank: "),
            "{error}"
        );
        assert_eq!(check_ends(&disk(0, None), 0), Err("it has no size".to_owned()));
    }

    #[test]
    fn partitions_and_other_devices_are_seen_in_sysfs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("holders")).unwrap();
        fs::create_dir_all(path.join("queue")).unwrap();
        assert_eq!((has_entries(&path.join("holders")), partition_of(path)), (Ok(false), Ok(None)));
        fs::create_dir_all(path.join("holders/dm-0")).unwrap();
        fs::create_dir_all(path.join("vda1")).unwrap();
        fs::write(path.join("vda1/partition"), "1\n").unwrap();
        assert_eq!(has_entries(&path.join("holders")), Ok(true));
        assert_eq!(partition_of(path), Ok(Some("vda1".to_owned())));
        // A disk that is gone.
        assert!(has_entries(&path.join("no")).is_err() && partition_of(&path.join("no")).is_err());
    }

    #[test]
    fn what_is_no_disk_is_refused() {
        let error = BlankDisk::claim("/dev/null").err().unwrap();
        assert_eq!(error, "/dev/null: it is no disk");
    }

    #[test]
    fn what_libblkid_knows_is_not_blank() {
        if program::find("blkid").is_none() {
            return;
        }
        let file = disk(4 << 20, None);
        assert_eq!(check_by_blkid(&file, ""), Ok(()));
        file.write_all_at(b"LUKS\xBA\xBE\0\x01", 0).unwrap();
        let error = check_by_blkid(&file, "").unwrap_err();
        assert!(error.ends_with("blkid finds crypto_LUKS"), "{error}");
    }
}
