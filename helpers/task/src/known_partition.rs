//! Partitions as the kernel knows them. The program that changes their table tells the kernel of it.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use crate::failure::at;

/// Partitions begin and end at a whole number of this.
pub const ALIGNMENT: u64 = 1 << 20;
/// The unit of sysfs, whatever the sectors of the disk are.
const UNIT: u64 = 512;

/// A partition, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownPartition {
    pub number: u32,
    /// In bytes.
    pub start: u64,
    pub size: u64,
}

impl KnownPartition {
    /// The device with this folder in sysfs. `None`: it is no partition.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn read(folder: &Path) -> Result<Option<KnownPartition>, String> {
        if !folder.join("partition").exists() {
            return Ok(None);
        }
        let bytes = |file: &str| Ok::<u64, String>(read_number(&folder.join(file))?.saturating_mul(UNIT));
        Ok(Some(KnownPartition {
            number: u32::try_from(read_number(&folder.join("partition"))?).unwrap_or(0),
            start: bytes("start")?,
            size: bytes("size")?,
        }))
    }

    /// All of the disk with this folder in sysfs.
    ///
    /// # Errors
    /// As [`KnownPartition::read`].
    pub fn all(folder: &Path) -> Result<Vec<KnownPartition>, String> {
        let entries = fs::read_dir(folder).map_err(|error| at(folder, error))?;
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| at(folder, error))?;
            found.extend(KnownPartition::read(&entry.path())?);
        }
        Ok(found)
    }

    /// The one on these sectors.
    pub fn on(number: u32, sectors: &Range<u64>, sector: u64) -> KnownPartition {
        let length = sectors.end.saturating_sub(sectors.start);
        KnownPartition {
            number,
            start: sectors.start.saturating_mul(sector),
            size: length.saturating_mul(sector),
        }
    }

    /// Whether it is on these sectors.
    pub fn is_on(&self, sectors: &Range<u64>, sector: u64) -> bool {
        *self == KnownPartition::on(self.number, sectors, sector)
    }

    /// Makes it known to the kernel; others of the disk may be in use.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn add(&self, disk: &File) -> io::Result<()> {
        self.change(disk, ADD)
    }

    /// Tells the kernel of its new size; it may be in use.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn resize(&self, disk: &File) -> io::Result<()> {
        self.change(disk, RESIZE)
    }

    fn change(&self, disk: &File, operation: libc::c_int) -> io::Result<()> {
        let mut place = Place {
            start: i64::try_from(self.start).unwrap_or(i64::MAX),
            length: i64::try_from(self.size).unwrap_or(i64::MAX),
            number: i32::try_from(self.number).unwrap_or(0),
            names: [0; 128],
        };
        let length = i32::try_from(size_of::<Place>()).unwrap_or(0);
        let change = Change { operation, flags: 0, length, place: &raw mut place };
        // SAFETY: the descriptor is open; the kernel reads the change and the place that it points to, which both live over
        // the call.
        let result = unsafe { libc::ioctl(disk.as_raw_fd(), BLKPG, &raw const change) };
        Ok(nix::errno::Errno::result(result).map(drop)?)
    }
}

/// The size of a sector of the disk with this folder in sysfs.
///
/// # Errors
/// It cannot be read.
pub fn sector_size(disk: &Path) -> Result<u64, String> {
    Ok(read_number(&disk.join("queue/logical_block_size"))?.max(UNIT))
}

/// The number in a file of sysfs.
///
/// # Errors
/// It cannot be read, or has no number.
pub fn read_number(file: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(file).map_err(|error| at(file, error))?;
    text.trim().parse().map_err(|error| at(file, error))
}

/// `struct blkpg_partition` and `struct blkpg_ioctl_arg` of the kernel's `blkpg.h`.
#[repr(C)]
struct Place {
    start: i64,
    length: i64,
    number: libc::c_int,
    names: [u8; 128],
}
#[repr(C)]
struct Change {
    operation: libc::c_int,
    flags: libc::c_int,
    length: libc::c_int,
    place: *mut Place,
}
/// `BLKPG`, `BLKPG_ADD_PARTITION` and `BLKPG_RESIZE_PARTITION`.
const BLKPG: libc::Ioctl = 0x1269;
const ADD: libc::c_int = 1;
const RESIZE: libc::c_int = 3;

#[cfg(test)]
pub mod testing {
    use kelson_devices::partition_table::{NewPartition, PartitionTable};

    use super::*;

    /// A table for a disk of this many MiB, with partitions on these MiB.
    pub fn table(sector: u64, size: u64, parts: &[(u64, u64)]) -> PartitionTable {
        let mut table = PartitionTable::new(sector, size * ALIGNMENT, [9; 16]).unwrap();
        for (start, end) in parts {
            let sectors = start * ALIGNMENT / sector..end * ALIGNMENT / sector;
            table.add(&NewPartition { kind: [7; 16], guid: [7; 16], sectors, name: "part" }).unwrap();
        }
        table
    }

    /// A disk with such a table.
    pub fn disk(sector: u64, size: u64, parts: &[(u64, u64)]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size * ALIGNMENT).unwrap();
        table(sector, size, parts).write(&file).unwrap();
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_have_the_layout_of_the_kernel() {
        assert_eq!((size_of::<Place>(), size_of::<Change>()), (152, 24));
    }

    #[test]
    fn the_partitions_of_a_disk_are_those_that_sysfs_shows() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("queue/logical_block_size", "4096\n");
        write("vda1/partition", "1\n");
        write("vda1/start", "2048\n");
        write("vda1/size", "8\n");
        let known = KnownPartition { number: 1, start: 1 << 20, size: 4096 };
        assert_eq!(KnownPartition::all(folder.path()), Ok(vec![known]));
        assert_eq!(sector_size(folder.path()), Ok(4096));
        assert!(known.is_on(&(256..257), 4096) && !known.is_on(&(256..258), 4096));
        write("vda1/size", "x\n");
        assert!(KnownPartition::all(folder.path()).unwrap_err().contains("vda1/size: "));
        assert!(KnownPartition::all(Path::new("/no/such")).is_err());
    }
}
