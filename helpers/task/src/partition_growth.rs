//! Growth of the last partition, when the disk is larger than its table of partitions says.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use kelson_devices::partition_table::PartitionTable;

use crate::failure::at;
use crate::known_partition::{ALIGNMENT, KnownPartition, sector_size};

/// A partition, as the kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Partition {
    /// The node of its disk.
    disk: PathBuf,
    known: KnownPartition,
    /// The size of a sector of the disk.
    sector: u64,
}

/// Lets a partition grow to the end of its disk, if it is the last one and its device is a partition at all.
///
/// # Errors
/// A sentence, when the table is not as expected. Then nothing was written.
pub fn grow(device: &Path) -> Result<String, String> {
    let Some(partition) = Partition::of(Path::new("/sys"), device)? else { return Ok(String::new()) };
    let disk = File::options().read(true).write(true).open(&partition.disk);
    let disk = disk.map_err(|error| at(&partition.disk, error))?;
    let grown = extend(&disk, &partition).map_err(|why| at(&partition.disk, why))?;
    let Some(size) = grown else { return Ok(String::new()) };
    let known = KnownPartition { size, ..partition.known };
    known.resize(&disk).map_err(|error| at(device, format!("its new size: {error}")))?;
    Ok(format!("{} has grown by {} MiB", device.display(), size.saturating_sub(partition.known.size) >> 20))
}

impl Partition {
    /// `None`: the device is no partition.
    fn of(sys: &Path, device: &Path) -> Result<Option<Partition>, String> {
        let number = fs::metadata(device).map_err(|error| at(device, error))?.rdev();
        let folder = sys.join(format!("dev/block/{}:{}", libc::major(number), libc::minor(number)));
        let Some(known) = KnownPartition::read(&folder)? else { return Ok(None) };
        let folder = fs::canonicalize(&folder).map_err(|error| at(&folder, error))?;
        let disk = folder.parent().unwrap_or(&folder);
        let node = Path::new("/dev").join(disk.file_name().unwrap_or_default());
        Ok(Some(Partition { disk: node, known, sector: sector_size(disk)? }))
    }
}

/// Writes a table in which the partition reaches to the end of the disk. Returns its new size in bytes; `None`: there is
/// nothing to grow into.
fn extend(mut disk: &File, partition: &Partition) -> Result<Option<u64>, String> {
    let sector = partition.sector;
    let mut table = PartitionTable::read(disk, sector).map_err(|error| error.to_string())?;
    let known = table.partition(partition.known.number).filter(|known| partition.known.is_on(known, sector));
    let Some(known) = known else {
        return Err(format!("its table of partitions has another partition {}", partition.known.number));
    };
    if table.last_start() != Some(known.start) {
        // Another one is in the way.
        return Ok(None);
    }
    let size = disk.seek(SeekFrom::End(0)).map_err(|error| error.to_string())?;
    let before = table.copy_place();
    let Some(end) = table.fit(size) else { return Ok(None) };
    let whole = ALIGNMENT.checked_div(sector).unwrap_or(1).max(1);
    let end = end.saturating_sub(end.checked_rem(whole).unwrap_or(0));
    if end <= known.end {
        return Ok(None);
    }
    if table.copy_place() != before {
        check_end(disk, table.copy_place())?;
    }
    table.set_end(partition.known.number, end);
    table.write(disk).map_err(|error| format!("its table of partitions: {error}"))?;
    Ok(Some(end.saturating_sub(known.start).saturating_mul(sector)))
}

/// Nothing is where the copy of the table will be.
pub fn check_end(disk: &File, place: Range<u64>) -> Result<(), String> {
    let length = place.end.saturating_sub(place.start);
    let mut end = vec![0; usize::try_from(length).unwrap_or(0)];
    disk.read_exact_at(&mut end, place.start).map_err(|error| format!("its end cannot be read: {error}"))?;
    match end.iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(at) => Err(format!(
            "byte {} is not zero, where the copy of a larger table of partitions would be",
            place.start.saturating_add(at as u64)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known_partition::testing::disk;

    const MIB: u64 = 1 << 20;

    fn partition(number: u32, sector: u64, part: Range<u64>) -> Partition {
        let (start, size) = (part.start * MIB, (part.end - part.start) * MIB);
        Partition { disk: "/dev/x".into(), known: KnownPartition { number, start, size }, sector }
    }

    /// The end in MiB.
    fn end_of(file: &File, sector: u64, number: u32) -> u64 {
        let table = PartitionTable::read(file, sector).unwrap();
        table.partition(number).unwrap().end * sector / MIB
    }

    fn contents(file: &File, place: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(place.end - place.start).unwrap()];
        file.read_exact_at(&mut bytes, place.start).unwrap();
        bytes
    }

    #[test]
    fn the_last_partition_grows_to_the_end_and_no_other() {
        for sector in [512, 4096] {
            let file = disk(sector, 8, &[(1, 3), (3, 7)]);
            let (first, last) = (partition(1, sector, 1..3), partition(2, sector, 3..7));
            assert_eq!(extend(&file, &last), Ok(None), "the disk is as large as before");
            file.set_len(16 * MIB + 5000).unwrap();
            assert_eq!(extend(&file, &first), Ok(None));
            assert_eq!(extend(&file, &last), Ok(Some(12 * MIB)));
            assert_eq!((end_of(&file, sector, 1), end_of(&file, sector, 2)), (3, 15));
            let last = partition(2, sector, 3..15);
            assert_eq!(extend(&file, &last), Ok(None));
            file.set_len(8 * MIB).unwrap();
            assert_eq!(extend(&file, &last), Ok(None), "the disk is smaller than the table says");
        }
    }

    #[test]
    fn room_behind_the_partition_is_taken_too() {
        let file = disk(512, 8, &[(1, 4)]);
        assert_eq!(extend(&file, &partition(1, 512, 1..4)), Ok(Some(6 * MIB)));
        assert_eq!(end_of(&file, 512, 1), 7);
    }

    #[test]
    fn the_copy_at_the_end_is_the_table_from_the_other_side() {
        let file = disk(512, 8, &[(1, 7)]);
        file.set_len(16 * MIB).unwrap();
        extend(&file, &partition(1, 512, 1..7)).unwrap().unwrap();
        let table = contents(&file, 512..512 * 34);
        let copy = contents(&file, 16 * MIB - 33 * 512..16 * MIB);
        assert!(table[512..] == copy[..32 * 512], "the entries differ");
        let header = &copy[32 * 512..];
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
        let last = 16 * MIB / 512 - 1;
        assert_eq!((number(24), number(32), number(72)), (last, 1, last - 32));
        let restored = PartitionTable::restore(&file, 512, 16 * MIB).unwrap();
        assert_eq!(restored, PartitionTable::read(&file, 512).unwrap());
    }

    #[test]
    fn what_is_not_as_expected_is_not_changed() {
        let refused = |file: &File, partition: &Partition| {
            let all = 0..file.metadata().unwrap().len();
            let before = contents(file, all.clone());
            let error = extend(file, partition).unwrap_err();
            assert!(contents(file, all) == before, "{error}");
            error
        };
        let file = disk(512, 8, &[(1, 7)]);
        file.set_len(16 * MIB).unwrap();
        for other in [partition(1, 512, 1..6), partition(0, 512, 1..7), partition(200, 512, 1..7)] {
            assert!(refused(&file, &other).contains("another partition"));
        }
        let part = partition(1, 512, 1..7);
        file.write_all_at(&[1], 16 * MIB - 700).unwrap();
        let error = refused(&file, &part);
        assert!(error.starts_with(&format!("byte {} is not zero", 16 * MIB - 700)), "{error}");
        file.write_all_at(&[0], 16 * MIB - 700).unwrap();
        for (place, why) in [(512, "it has no GPT"), (512 + 80, "unusual form"), (1024 + 60, "damaged")] {
            let before = contents(&file, place..place + 1);
            file.write_all_at(&[before[0] ^ 0x10], place).unwrap();
            let error = refused(&file, &part);
            assert!(error.contains(why), "{place}: {error}");
            file.write_all_at(&before, place).unwrap();
        }
        assert_eq!(extend(&file, &part), Ok(Some(14 * MIB)));
    }
}
