//! The superblock of a disk, and its table of partitions.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use kelson_devices::partition_table::{NewPartition, PartitionTable};
use kelson_devices::{ReadAt, identify, partition_names, serial_in_page};
use nix::sys::memfd::{MFdFlags, memfd_create};

struct Disk<'a>(&'a [u8]);

impl ReadAt for Disk<'_> {
    fn read_at(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let start = usize::try_from(offset).ok()?;
        Some(self.0.get(start..start.checked_add(length)?)?.to_vec())
    }
}

/// The page in which a disk gives its serial number.
pub fn serial_page(data: &[u8]) {
    if let Some(serial) = serial_in_page(data) {
        // A byte that is no text becomes a sign of three.
        assert!(serial.len() <= data.len().saturating_sub(4).saturating_mul(3));
        assert_eq!(serial.trim_matches(['\0', ' ']), serial);
    }
}

/// The first bytes of a disk.
pub fn disk(data: &[u8]) {
    if let Some(found) = identify(&Disk(data)) {
        assert!(found.label.is_none_or(|label| label.len() <= 1024));
        assert!(found.uuid.is_none_or(|uuid| uuid.len() <= 36));
    }
    for number in [1, 2, 128] {
        if let Some(names) = partition_names(&Disk(data), 512, number) {
            assert!(names.uuid.len() <= 36);
            assert!(names.label.is_none_or(|label| label.chars().count() <= 36));
        }
    }
}

const SECTOR: usize = 512;
/// Of the header, and of an entry.
const HEADER: usize = 92;
const ENTRY: usize = 128;
/// The table at the beginning of a disk, its copy, and room for partitions.
const SIZE: usize = 1 << 20;

/// The header of a table of partitions and its first entries, whose checksums and form are made right.
pub fn table(data: &[u8]) {
    let mut bytes = vec![0; SIZE];
    // Its first sector is not blank, and stays as it is.
    bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
    let (header, entries) = data.split_at(HEADER.min(data.len()));
    bytes[SECTOR..SECTOR + header.len()].copy_from_slice(header);
    let entries = &entries[..entries.len().min(128 * ENTRY)];
    bytes[2 * SECTOR..2 * SECTOR + entries.len()].copy_from_slice(entries);
    let sum = crc32fast::hash(&bytes[2 * SECTOR..2 * SECTOR + 128 * ENTRY]);
    let header = &mut bytes[SECTOR..SECTOR + HEADER];
    header[..8].copy_from_slice(b"EFI PART");
    header[8..20].copy_from_slice(&[0, 0, 1, 0, 92, 0, 0, 0, 0, 0, 0, 0]);
    header[24..32].copy_from_slice(&1_u64.to_le_bytes());
    header[72..88].copy_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 128, 0, 0, 0]);
    header[88..].copy_from_slice(&sum.to_le_bytes());
    let sum = crc32fast::hash(header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    let disk = File::from(memfd_create(c"disk", MFdFlags::MFD_CLOEXEC).expect("there is memory"));
    disk.write_all_at(&bytes, 0).expect("there is memory");

    let sector = SECTOR as u64;
    let Ok(mut table) = PartitionTable::read(&disk, sector) else { return };
    let Some(end) = table.fit(SIZE as u64) else { return };
    for gap in table.gaps(8) {
        assert!(gap.start < gap.end && gap.start % 8 == 0 && gap.end <= end);
        assert!(table.partitions().all(|(_, part, _)| part.end <= gap.start || part.start >= gap.end));
        let new = NewPartition { kind: [1; 16], guid: [2; 16], sectors: gap.clone(), name: "NEW" };
        let Some(number) = table.add(&new) else { break };
        assert_eq!(table.partition(number), Some(gap));
    }
    table.write(&disk).expect("there is memory");
    assert_eq!(PartitionTable::read(&disk, sector).expect("it was written"), table);
    assert_eq!(PartitionTable::restore(&disk, sector, SIZE as u64).expect("it has a copy"), table);
}
