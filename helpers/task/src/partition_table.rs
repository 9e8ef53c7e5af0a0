//! The table of partitions of a disk (GPT), read to be changed and written back.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

const SIGNATURE: &[u8; 8] = b"EFI PART";
/// The length of a header; the rest of its sector is zero.
const HEADER: usize = 92;
/// The version, and that length.
const VERSION: [u8; 8] = [0, 0, 1, 0, 92, 0, 0, 0];
/// Where the fields of a header are.
const CHECKSUM: usize = 16;
const OWN_PLACE: usize = 24;
const OTHER_PLACE: usize = 32;
const LAST_USABLE: usize = 48;
const ENTRIES: usize = 72;
const COUNT: usize = 80;
const SIZE: usize = 84;
const ENTRIES_CHECKSUM: usize = 88;
/// The number of entries, and the size of each, as all programs write them.
const USUAL: u32 = 128;
const ENTRY: usize = 128;
/// Of all entries, in bytes.
const TABLE: u64 = 128 * 128;
/// The first sector after the header.
const FIRST_ENTRIES: u64 = 2;
/// The first and the last sector of a partition in its entry.
const START: usize = 32;
const END: usize = 40;

/// A table that is sound.
#[derive(Clone)]
pub struct PartitionTable {
    header: Vec<u8>,
    entries: Vec<u8>,
    /// The size of a sector.
    sector: u64,
}

impl PartitionTable {
    /// The table at the beginning of a disk.
    ///
    /// # Errors
    /// A sentence, when there is none, or it is not sound, or of an unusual form.
    pub fn read(disk: &File, sector: u64) -> Result<PartitionTable, String> {
        let mut table = PartitionTable { header: vec![0; HEADER], entries: vec![0; bytes(TABLE)], sector };
        let read = |bytes: &mut [u8], place: u64| {
            let read = disk.read_exact_at(bytes, place.saturating_mul(sector));
            read.map_err(|error| format!("its table of partitions cannot be read: {error}"))
        };
        read(&mut table.header, 1)?;
        read(&mut table.entries, FIRST_ENTRIES)?;
        if !table.header.starts_with(SIGNATURE) {
            return Err("it has no GPT".to_owned());
        }
        let usual = table.header.get(8..16) == Some(&VERSION)
            && (table.number(OWN_PLACE), table.number(ENTRIES)) == (1, FIRST_ENTRIES)
            && (table.half(COUNT), table.half(SIZE)) == (USUAL, USUAL);
        if !usual {
            return Err("its table of partitions has an unusual form; Kelson does not change it".to_owned());
        }
        let sums = (table.half(CHECKSUM), table.half(ENTRIES_CHECKSUM));
        let mut sound = table.clone();
        sound.seal();
        if (sound.half(CHECKSUM), sound.half(ENTRIES_CHECKSUM)) != sums {
            return Err("its table of partitions is damaged".to_owned());
        }
        Ok(table)
    }

    /// The sectors of a partition, from 1; `None`: there is no such one.
    pub fn partition(&self, number: u32) -> Option<Range<u64>> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        sectors(self.entries.chunks_exact(ENTRY).nth(place)?)
    }

    /// The first sector of the partition that is the last on the disk.
    pub fn last_start(&self) -> Option<u64> {
        self.entries.chunks_exact(ENTRY).filter_map(|entry| Some(sectors(entry)?.start)).max()
    }

    /// Ends a partition before this sector.
    pub fn set_end(&mut self, number: u32, end: u64) {
        let place = usize::try_from(number).unwrap_or(0).checked_sub(1);
        if let Some(entry) = place.and_then(|place| self.entries.chunks_exact_mut(ENTRY).nth(place)) {
            put(entry, END, &end.saturating_sub(1).to_le_bytes());
        }
    }

    /// Puts the copy of the table at the end of a disk of this size in bytes, and returns the first sector after the last one
    /// that a partition may have. `None`: the disk is smaller than before.
    pub fn fit(&mut self, size: u64) -> Option<u64> {
        let last = size.checked_div(self.sector)?.checked_sub(1)?;
        if last < self.number(OTHER_PLACE) {
            return None;
        }
        let end = last.checked_sub(TABLE.checked_div(self.sector)?)?;
        put(&mut self.header, OTHER_PLACE, &last.to_le_bytes());
        put(&mut self.header, LAST_USABLE, &end.checked_sub(1)?.to_le_bytes());
        Some(end)
    }

    /// The bytes of the disk where the copy of the table is.
    pub fn copy_place(&self) -> Range<u64> {
        let (first, last) = (self.number(LAST_USABLE).saturating_add(1), self.number(OTHER_PLACE));
        first.saturating_mul(self.sector)..last.saturating_add(1).saturating_mul(self.sector)
    }

    /// Writes the copy, and then the table: each in one piece, of which the first 4 KiB have all that changes on a disk with
    /// sectors of 512 bytes. So a power cut leaves the old table or the new one on a disk that writes 4 KiB as a whole; on
    /// another one the kernel finds the copy with the word `gpt` on its command line.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&self, disk: &File) -> io::Result<()> {
        let mut copy = self.clone();
        put(&mut copy.header, OWN_PLACE, &self.number(OTHER_PLACE).to_le_bytes());
        put(&mut copy.header, OTHER_PLACE, &self.number(OWN_PLACE).to_le_bytes());
        put(&mut copy.header, ENTRIES, &self.number(LAST_USABLE).saturating_add(1).to_le_bytes());
        copy.seal();
        disk.write_all_at(&[&copy.entries[..], &copy.header_sector()].concat(), self.copy_place().start)?;
        disk.sync_all()?;
        let mut table = self.clone();
        table.seal();
        disk.write_all_at(&[&table.header_sector()[..], &table.entries].concat(), self.sector)?;
        disk.sync_all()
    }

    fn header_sector(&self) -> Vec<u8> {
        let mut sector = self.header.clone();
        sector.resize(bytes(self.sector), 0);
        sector
    }

    /// Makes its checksums those of its contents.
    fn seal(&mut self) {
        put(&mut self.header, ENTRIES_CHECKSUM, &crc32fast::hash(&self.entries).to_le_bytes());
        put(&mut self.header, CHECKSUM, &[0; 4]);
        let sum = crc32fast::hash(&self.header);
        put(&mut self.header, CHECKSUM, &sum.to_le_bytes());
    }

    fn number(&self, field: usize) -> u64 {
        number(&self.header, field)
    }

    fn half(&self, field: usize) -> u32 {
        let bytes = self.header.get(field..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}

/// The sectors of a partition; `None`: the entry is not used.
fn sectors(entry: &[u8]) -> Option<Range<u64>> {
    let is_used = entry.get(..16)?.iter().any(|byte| *byte != 0);
    is_used.then(|| number(entry, START)..number(entry, END).saturating_add(1))
}

fn number(bytes: &[u8], field: usize) -> u64 {
    let bytes = bytes.get(field..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn put(bytes: &mut [u8], field: usize, value: &[u8]) {
    bytes.iter_mut().skip(field).zip(value).for_each(|(to, from)| *to = *from);
}

/// The length of a buffer.
fn bytes(length: u64) -> usize {
    usize::try_from(length).unwrap_or(0)
}

#[cfg(test)]
pub mod testing {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A disk of this many MiB with partitions on these MiB.
    pub fn disk(sector: u64, size: u64, parts: &[(u64, u64)]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size * MIB).unwrap();
        let mut table = PartitionTable { header: vec![0; HEADER], entries: vec![0; bytes(TABLE)], sector };
        for (entry, (start, end)) in table.entries.chunks_exact_mut(ENTRY).zip(parts) {
            put(entry, 0, &[7; 32]);
            put(entry, START, &(start * MIB / sector).to_le_bytes());
            put(entry, END, &(end * MIB / sector - 1).to_le_bytes());
        }
        put(&mut table.header, 0, SIGNATURE);
        put(&mut table.header, 8, &VERSION);
        put(&mut table.header, OWN_PLACE, &1_u64.to_le_bytes());
        put(&mut table.header, ENTRIES, &FIRST_ENTRIES.to_le_bytes());
        put(&mut table.header, COUNT, &[USUAL.to_le_bytes(), USUAL.to_le_bytes()].concat());
        table.fit(size * MIB).unwrap();
        table.write(&file).unwrap();
        file
    }
}
