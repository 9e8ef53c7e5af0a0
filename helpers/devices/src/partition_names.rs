//! The names of a partition, read from the table of its disk.
//!
//! A GPT has a GUID and a name for each partition; of an MBR the UUID is the signature of the disk with the partition's number,
//! as the kernel and its `root=PARTUUID=` have it. The kernel reports both, but not of a partition that was added since it read
//! the table.

use crate::gpt::{
    COUNT, ENTRIES, FIRST_HEADER, GUID, HEADER, SIGNATURE, SIZE, guid_text, half, is_used, name, number,
};
use crate::superblock::ReadAt;

/// Tables have 128; the kernel itself takes no more than this.
const MOST: u32 = 1024;
/// The sizes that an entry may have.
const ENTRY_SIZES: std::ops::RangeInclusive<u32> = 128..=4096;

/// The names of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionNames {
    pub uuid: String,
    pub label: Option<String>,
}

/// The names of the partition of this number, from 1. `sector`: the logical size of a sector.
pub fn partition_names(disk: &impl ReadAt, sector: u64, of: u32) -> Option<PartitionNames> {
    let index = of.checked_sub(1).filter(|index| *index < MOST)?;
    gpt(disk, sector, index).or_else(|| mbr(disk, of))
}

fn gpt(disk: &impl ReadAt, sector: u64, index: u32) -> Option<PartitionNames> {
    let header = disk.read_at(FIRST_HEADER.checked_mul(sector)?, HEADER)?;
    header.starts_with(SIGNATURE).then_some(())?;
    let (count, size) = (half(&header, COUNT), half(&header, SIZE));
    (index < count && ENTRY_SIZES.contains(&size)).then_some(())?;
    let offset = u64::from(index).checked_mul(u64::from(size))?;
    let start = number(&header, ENTRIES).checked_mul(sector)?.checked_add(offset)?;
    let entry = disk.read_at(start, usize::try_from(*ENTRY_SIZES.start()).ok()?)?;
    let uuid = is_used(&entry).then(|| entry.get(GUID..)?.first_chunk().map(guid_text))??;
    Some(PartitionNames { uuid, label: Some(name(&entry)).filter(|label| !label.is_empty()) })
}

fn mbr(disk: &impl ReadAt, number: u32) -> Option<PartitionNames> {
    let block = disk.read_at(0, 512)?;
    (block.get(510..)? == [0x55, 0xAA]).then_some(())?;
    let signature = half(&block, 440);
    (signature != 0).then(|| PartitionNames { uuid: format!("{signature:08x}-{number:02x}"), label: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpt::{LONGEST_NAME, NAME};

    struct Disk(Vec<u8>);

    impl ReadAt for Disk {
        fn read_at(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
            let offset = usize::try_from(offset).unwrap();
            Some(self.0.get(offset..offset.checked_add(length)?)?.to_vec())
        }
    }

    fn gpt_disk() -> Disk {
        let mut bytes = vec![0; 8192];
        bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
        bytes[512..520].copy_from_slice(SIGNATURE);
        bytes[512 + 72..512 + 80].copy_from_slice(&2_u64.to_le_bytes());
        bytes[512 + 80..512 + 84].copy_from_slice(&128_u32.to_le_bytes());
        bytes[512 + 84..512 + 88].copy_from_slice(&128_u32.to_le_bytes());
        let second = 1024 + 128;
        bytes[second..second + 16].copy_from_slice(&[1; 16]);
        for (place, byte) in bytes[second + 16..second + 32].iter_mut().enumerate() {
            *byte = u8::try_from(place).unwrap();
        }
        for (place, byte) in b"DATA 1".iter().enumerate() {
            bytes[second + NAME + 2 * place] = *byte;
        }
        Disk(bytes)
    }

    fn uuid(disk: &Disk, number: u32) -> Option<String> {
        partition_names(disk, 512, number).map(|names| names.uuid)
    }

    #[test]
    fn names_are_as_the_kernel_shows_them() {
        let names = partition_names(&gpt_disk(), 512, 2).unwrap();
        assert_eq!(names.uuid, "03020100-0504-0706-0809-0a0b0c0d0e0f");
        assert_eq!(names.label.as_deref(), Some("DATA 1"));
        for number in [0, 1, 129, u32::MAX] {
            assert_eq!(uuid(&gpt_disk(), number), None, "{number}");
        }
        let mut unnamed = gpt_disk();
        unnamed.0[1024 + 128 + NAME..].fill(0);
        assert_eq!(partition_names(&unnamed, 512, 2).unwrap().label, None);
        unnamed.0[1024 + 128 + NAME..1024 + 256].fill(0xDC);
        assert_eq!(partition_names(&unnamed, 512, 2).unwrap().label, Some("?".repeat(LONGEST_NAME)));
    }

    #[test]
    fn an_mbr_has_a_signature() {
        let mut bytes = vec![0; 512];
        bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
        assert_eq!(partition_names(&Disk(bytes.clone()), 512, 1), None);
        bytes[440..444].copy_from_slice(&[0x78, 0x56, 0x34, 0x12]);
        let names = PartitionNames { uuid: "12345678-01".to_owned(), label: None };
        assert_eq!(partition_names(&Disk(bytes), 512, 1), Some(names));
    }

    #[test]
    fn a_hostile_table_is_none() {
        for (at, value) in [(72, u64::MAX), (80, 0), (80, u64::MAX)] {
            let mut disk = gpt_disk();
            disk.0[510] = 0;
            disk.0[512 + at..512 + at + 8].copy_from_slice(&value.to_le_bytes());
            assert_eq!(uuid(&disk, 2), None, "{at} {value}");
        }
        assert_eq!(uuid(&Disk(Vec::new()), 1), None);
    }
}
