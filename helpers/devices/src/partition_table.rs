//! The UUID of a partition, read from the table of its disk.
//!
//! A GPT has a GUID for each partition; of an MBR it is the signature of the disk with the partition's number, as the kernel
//! and its `root=PARTUUID=` have it.

use crate::superblock::ReadAt;

/// Tables have 128; the kernel itself takes no more than this.
const MOST: u32 = 1024;
/// The sizes that an entry may have.
const ENTRY: std::ops::RangeInclusive<u32> = 128..=4096;

/// The UUID of the partition of this number, from 1. `sector`: the logical size of a sector.
pub fn partition_uuid(disk: &impl ReadAt, sector: u64, number: u32) -> Option<String> {
    let index = number.checked_sub(1).filter(|index| *index < MOST)?;
    gpt(disk, sector, index).or_else(|| mbr(disk, number))
}

fn gpt(disk: &impl ReadAt, sector: u64, index: u32) -> Option<String> {
    let header = disk.read_at(sector, 92)?;
    (header.get(..8)? == b"EFI PART").then_some(())?;
    let number = |at: usize| header.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let first = u64::from_le_bytes(*header.get(72..)?.first_chunk()?);
    let (count, size) = (number(80)?, number(84)?);
    (index < count && ENTRY.contains(&size)).then_some(())?;
    let offset = u64::from(index).checked_mul(u64::from(size))?;
    let entry = disk.read_at(first.checked_mul(sector)?.checked_add(offset)?, 32)?;
    let (kind, guid) = entry.split_first_chunk::<16>()?;
    // An unused entry has the kind zero.
    (*kind != [0; 16]).then(|| guid.first_chunk().map(guid_text))?
}

/// The first three fields are little-endian.
fn guid_text(bytes: &[u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let (first, second, third) =
        (u32::from_le_bytes([*a, *b, *c, *d]), u16::from_le_bytes([*e, *f]), u16::from_le_bytes([*g, *h]));
    let [i, j, node @ ..] = rest;
    let node: String = node.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{first:08x}-{second:04x}-{third:04x}-{i:02x}{j:02x}-{node}")
}

fn mbr(disk: &impl ReadAt, number: u32) -> Option<String> {
    let block = disk.read_at(0, 512)?;
    (block.get(510..)? == [0x55, 0xAA]).then_some(())?;
    let signature = u32::from_le_bytes(*block.get(440..)?.first_chunk()?);
    (signature != 0).then(|| format!("{signature:08x}-{number:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        bytes[512..520].copy_from_slice(b"EFI PART");
        bytes[512 + 72..512 + 80].copy_from_slice(&2_u64.to_le_bytes());
        bytes[512 + 80..512 + 84].copy_from_slice(&128_u32.to_le_bytes());
        bytes[512 + 84..512 + 88].copy_from_slice(&128_u32.to_le_bytes());
        let second = 1024 + 128;
        bytes[second..second + 16].copy_from_slice(&[1; 16]);
        for (place, byte) in bytes[second + 16..second + 32].iter_mut().enumerate() {
            *byte = u8::try_from(place).unwrap();
        }
        Disk(bytes)
    }

    #[test]
    fn a_guid_is_shown_as_the_kernel_shows_it() {
        let uuid = partition_uuid(&gpt_disk(), 512, 2);
        assert_eq!(uuid.as_deref(), Some("03020100-0504-0706-0809-0a0b0c0d0e0f"));
        for number in [0, 1, 129, u32::MAX] {
            assert_eq!(partition_uuid(&gpt_disk(), 512, number), None, "{number}");
        }
    }

    #[test]
    fn an_mbr_has_a_signature() {
        let mut bytes = vec![0; 512];
        bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
        assert_eq!(partition_uuid(&Disk(bytes.clone()), 512, 1), None);
        bytes[440..444].copy_from_slice(&[0x78, 0x56, 0x34, 0x12]);
        assert_eq!(partition_uuid(&Disk(bytes), 512, 1).as_deref(), Some("12345678-01"));
    }

    #[test]
    fn a_hostile_table_is_none() {
        for (at, value) in [(72, u64::MAX), (80, 0), (80, u64::MAX)] {
            let mut disk = gpt_disk();
            disk.0[510] = 0;
            disk.0[512 + at..512 + at + 8].copy_from_slice(&value.to_le_bytes());
            assert_eq!(partition_uuid(&disk, 512, 2), None, "{at} {value}");
        }
        assert_eq!(partition_uuid(&Disk(Vec::new()), 512, 1), None);
    }
}
