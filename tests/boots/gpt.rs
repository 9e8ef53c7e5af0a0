//! Tables of partitions for the disks of tests.

use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

pub const SECTOR: u64 = 512;

/// CRC-32 of a table of partitions.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 },
        )
    })
}

/// Makes a disk of this size in bytes with a GPT, which has one partition of this name on these sectors.
pub fn write(disk: &Path, bytes: u64, part: RangeInclusive<u64>, name: &str) -> File {
    let sectors = bytes / SECTOR;
    let mut entries = vec![0; 128 * 128];
    entries[..16].copy_from_slice(&[0xA2; 16]);
    entries[16..32].copy_from_slice(&[7; 16]);
    entries[32..40].copy_from_slice(&part.start().to_le_bytes());
    entries[40..48].copy_from_slice(&part.end().to_le_bytes());
    for (place, unit) in name.encode_utf16().enumerate() {
        entries[56 + 2 * place..][..2].copy_from_slice(&unit.to_le_bytes());
    }
    let mut header = vec![0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[8..16].copy_from_slice(&[0, 0, 1, 0, 92, 0, 0, 0]);
    for (at, number) in [(24, 1), (32, sectors - 1), (40, 34), (48, sectors - 34), (72, 2)] {
        header[at..at + 8].copy_from_slice(&u64::to_le_bytes(number));
    }
    header[56..72].copy_from_slice(&[9; 16]);
    for (at, number) in [(80, 128), (84, 128), (88, checksum(&entries))] {
        header[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
    }
    let sum = checksum(&header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    let mut protective = vec![0; 512];
    // A partition of the kind GPT over the whole disk.
    protective[446..462].copy_from_slice(&[0, 0, 2, 0, 0xEE, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0xFF, 7, 0, 0]);
    protective[510..].copy_from_slice(&[0x55, 0xAA]);
    let file = File::create(disk).expect("the folder of the test is writable");
    file.set_len(bytes).expect("there is room");
    for (sector, bytes) in [(0, &protective[..]), (1, &header), (2, &entries)] {
        file.write_all_at(bytes, sector * SECTOR).expect("the disk is written");
    }
    file
}

/// The name, the first and the last sector of each partition of a disk with sectors of this size.
pub fn read(disk: &Path, sector: u64) -> Vec<(String, u64, u64)> {
    let file = File::open(disk).expect("the disk is there");
    let mut entries = vec![0; 128 * 128];
    file.read_exact_at(&mut entries, 2 * sector).expect("the disk has a table");
    let number = |entry: &[u8], at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("8 bytes"));
    let used = entries.chunks(128).filter(|entry| entry[..16] != [0; 16]);
    used.map(|entry| {
        let units = entry[56..].chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        let name: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
        (String::from_utf16_lossy(&name), number(entry, 32), number(entry, 40))
    })
    .collect()
}
