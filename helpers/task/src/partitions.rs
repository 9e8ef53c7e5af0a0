//! Making the partitions that a disk lacks. A partition that is there stays as it is, and nothing but the table is written.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use kelson_devices::identify;
use kelson_devices::partition_table::{FirstSector, PartitionTable, TableError};
use kelson_spec::partitions::PartitionSpec;
use nix::fcntl::{Flock, FlockArg};

use crate::blank::{self, BlankDisk, Identity};
use crate::disk;
use crate::failure::at;
use crate::known_partition::{KnownPartition, read_number, sector_size};
use crate::partition_growth::check_end;
use crate::partition_plan::{add_missing, random_guid};

/// Makes those of the partitions that the disk lacks. A blank disk gets a table; another disk without one is left alone.
///
/// # Errors
/// A sentence. Unless it says that the table could not be written, nothing was.
pub fn make(source: &str, words: &[String]) -> Result<String, String> {
    let wanted: Option<Vec<PartitionSpec>> =
        words.iter().map(|word| PartitionSpec::from_word(word)).collect();
    let wanted = wanted.ok_or("a partition is not understood")?;
    let path = disk::find(source, Duration::ZERO)?;
    let file = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path);
    let file = file.map_err(|error| at(&path, error))?;
    // The disk may be asked for by another of its names at the same time.
    let file = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| at(&path, errno.desc()))?;
    make_on(source, &path, &file, &wanted)
}

fn make_on(source: &str, path: &Path, disk: &File, wanted: &[PartitionSpec]) -> Result<String, String> {
    let at = |why: String| at(path, why);
    let identity = Identity::of(disk).map_err(|error| at(error.to_string()))?;
    let folder = identity.folder(Path::new("/sys"));
    check_disk(&folder).map_err(at)?;
    let (sector, size) = (sector_size(&folder)?, identity.size());
    let known = KnownPartition::all(&folder)?;
    let (table, text) = match prepare(disk, sector, size, wanted).map_err(at)? {
        Some(Prepared { table, added, restored }) => {
            check_known(&known, &table, sector).map_err(at)?;
            blank::check_by_blkid(disk, "gpt").map_err(at)?;
            if restored || !added.is_empty() {
                // The name may have come to mean another disk before this one was opened.
                if disk::find(source, Duration::ZERO)? != path || Identity::at(path) != Some(identity) {
                    return Err(at(format!("{source} is another disk by now")));
                }
                table.write(disk).map_err(|error| at(format!("its table of partitions: {error}")))?;
            }
            let restored = if restored { " got its table back from the copy at its end" } else { "" };
            match added.is_empty() {
                true if restored.is_empty() => (table, format!("{} has them all", path.display())),
                true => (table, format!("{}{restored}", path.display())),
                false => (table, format!("{}{restored}; new: {}", path.display(), added.join(", "))),
            }
        }
        None => {
            let mut table = PartitionTable::new(sector, size, random_guid()?)
                .ok_or_else(|| at("it is too small for a table of partitions".to_owned()))?;
            let added = add_missing(&mut table, sector, wanted).map_err(at)?;
            BlankDisk::claim(source)?.write_table(&table)?;
            (table, format!("{} was blank; new: {}", path.display(), added.join(", ")))
        }
    };
    for (number, sectors, label) in table.partitions() {
        if known.iter().all(|known| known.number != number) {
            let new = KnownPartition::on(number, &sectors, sector);
            new.add(disk).map_err(|error| {
                at(format!("the kernel takes the partition {label} only after a reboot: {error}"))
            })?;
        }
    }
    Ok(text)
}

/// It is a disk on which the kernel makes partitions, and nothing uses all of it.
fn check_disk(folder: &Path) -> Result<(), String> {
    if folder.join("partition").exists() {
        return Err("it is a partition; name the whole disk".to_owned());
    }
    if read_number(&folder.join("ext_range"))? <= 1 {
        return Err("the kernel makes no partitions on such a device".to_owned());
    }
    match blank::has_entries(&folder.join("holders"))? {
        true => Err("it is a part of another device".to_owned()),
        false => Ok(()),
    }
}

/// The kernel knows the partitions as they are in the table.
fn check_known(known: &[KnownPartition], table: &PartitionTable, sector: u64) -> Result<(), String> {
    let is_there = |known: &&KnownPartition| {
        table.partition(known.number).is_some_and(|sectors| known.is_on(&sectors, sector))
    };
    match known.iter().find(|known| !is_there(known)) {
        None => Ok(()),
        Some(other) => Err(format!("the kernel knows another partition {} than its table has", other.number)),
    }
}

/// A table that has all partitions.
#[derive(Debug)]
struct Prepared<'a> {
    table: PartitionTable,
    /// The labels of those that it lacked.
    added: Vec<&'a str>,
    /// The disk had it only at its end, as a power cut leaves it.
    restored: bool,
}

/// Adds the partitions that the table of a disk lacks. Writes nothing. `None`: the disk has no table, and may be blank.
fn prepare<'a>(
    disk: &File,
    sector: u64,
    size: u64,
    wanted: &'a [PartitionSpec],
) -> Result<Option<Prepared<'a>>, String> {
    let unreadable = |error: io::Error| format!("it cannot be read: {error}");
    if let Some(found) = identify(disk) {
        return Err(format!("a {} is on it; Kelson makes no partitions there", found.fs_type));
    }
    let first = FirstSector::read(disk).map_err(unreadable)?;
    let (mut table, restored) = match (PartitionTable::read(disk, sector), first) {
        (Ok(table), FirstSector::Protective) => (table, false),
        (Err(TableError::Missing), FirstSector::Marked) => {
            return Err("it has an MBR; Kelson makes partitions in a GPT alone".to_owned());
        }
        (Err(TableError::Missing), FirstSector::Other) => return Ok(None),
        (
            Ok(_) | Err(TableError::Missing | TableError::Damaged),
            FirstSector::Protective | FirstSector::Blank,
        ) => match PartitionTable::restore(disk, sector, size) {
            Ok(table) => (table, true),
            Err(TableError::Missing) if first == FirstSector::Blank => return Ok(None),
            Err(TableError::Missing) => {
                return Err("its table of partitions is damaged, and has no copy".to_owned());
            }
            Err(error) => return Err(format!("at its end, {error}")),
        },
        (Ok(_), _) => {
            return Err("its first sector does not belong to its GPT; repair it with sgdisk".to_owned());
        }
        (Err(error), _) => return Err(error.to_string()),
    };
    // Until its first sector is there, a new table counts for nobody. It is finished if it is of this file.
    let is_wanted = |label: &str| wanted.iter().any(|part| part.label == label);
    if first == FirstSector::Blank
        && let Some((_, _, label)) = table.partitions().find(|(_, _, label)| !is_wanted(label))
    {
        return Err(format!(
            "its beginning is blank, and the copy of a table with the partition {label} is at its end; \
             restore it with sgdisk, or wipe the disk with wipefs -a"
        ));
    }
    let copy = table.copy_place();
    if table.fit(size).is_none() {
        return Err("it is smaller than its table of partitions says".to_owned());
    }
    let added = add_missing(&mut table, sector, wanted)?;
    if !added.is_empty() {
        match table.copy_place() == copy {
            true => check_copy(disk, copy.end.saturating_sub(sector)).map_err(unreadable)??,
            false => check_end(disk, table.copy_place())?,
        }
    }
    Ok(Some(Prepared { table, added, restored }))
}

/// The last sector has the header of a table, be it damaged, or nothing.
fn check_copy(disk: &File, place: u64) -> io::Result<Result<(), String>> {
    let mut header = [0; 512];
    disk.read_exact_at(&mut header, place)?;
    let is_sound = header.starts_with(b"EFI PART") || header.iter().all(|byte| *byte == 0);
    Ok(if is_sound {
        Ok(())
    } else {
        Err("its last sector has no copy of its table, but something else".to_owned())
    })
}

#[cfg(test)]
mod tests;
