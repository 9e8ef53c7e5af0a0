//! The table of partitions of a disk (GPT), read to be changed and written back.
//!
//! A disk has the table twice: at its beginning, and a copy at its end. [`PartitionTable::steps`] has the order in which both are
//! written, so that a power cut leaves the old table or the new one.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use kelson_sys::crc32::crc32;

use crate::gpt::{
    CHECKSUM, COUNT, DISK_GUID, END, ENTRIES, ENTRIES_CHECKSUM, ENTRY, FIRST_HEADER, FIRST_USABLE, GUID,
    HEADER, KIND, LAST_USABLE, LONGEST_NAME, NAME, OTHER_PLACE, OWN_PLACE, SIGNATURE, SIZE, START, half,
    is_used, name, number, put, sectors,
};

/// The version, and the length of a header.
const VERSION: [u8; 8] = [0, 0, 1, 0, 92, 0, 0, 0];
/// The number of entries, and the size of each, as all programs write them.
const USUAL: u32 = 128;
/// Of all entries, in bytes.
const TABLE: u64 = 128 * 128;
/// The first sector after the header.
const FIRST_ENTRIES: u64 = 2;
/// What disks write as a whole.
const BLOCK: u64 = 4096;
/// Where the first sector of a disk describes partitions to programs that know no GPT, and the mark at its end.
const RECORDS: Range<usize> = 446..510;
const RECORD: usize = 16;
const MARK: [u8; 2] = [0x55, 0xAA];
/// The kind of a record that covers a GPT.
const PROTECTIVE: u8 = 0xEE;

/// Why a disk has no table that can be changed.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("its table of partitions cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it has no GPT")]
    Missing,
    #[error("its table of partitions has an unusual form; Kelson does not change it")]
    Unusual,
    #[error("its table of partitions is damaged")]
    Damaged,
}

/// The first sector of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstSector {
    /// All zero: no program takes the disk for one with a table.
    Blank,
    /// It covers a GPT.
    Protective,
    /// It has an MBR, or the loader of a file system.
    Marked,
    Other,
}

/// A table that is sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionTable {
    /// What must be written into the first sector of the disk.
    first: Option<Vec<u8>>,
    header: Vec<u8>,
    entries: Vec<u8>,
    /// The size of a sector.
    sector: u64,
}

/// A partition that is to be added.
#[derive(Debug, Clone)]
pub struct NewPartition<'a> {
    pub kind: [u8; 16],
    pub guid: [u8; 16],
    pub sectors: Range<u64>,
    /// At most 36 units of UTF-16 of it are kept.
    pub name: &'a str,
}

impl PartitionTable {
    /// A table without partitions for a disk of this size in bytes. `None`: the disk is too small.
    pub fn new(sector: u64, size: u64, guid: [u8; 16]) -> Option<PartitionTable> {
        let last = size.checked_div(sector)?.checked_sub(1)?;
        let mut table = PartitionTable {
            first: Some(protective(sector, last)),
            header: vec![0; HEADER],
            entries: vec![0; bytes(TABLE)],
            sector,
        };
        let usable = FIRST_ENTRIES.checked_add(table.entry_sectors())?;
        put(&mut table.header, 0, SIGNATURE);
        put(&mut table.header, SIGNATURE.len(), &VERSION);
        put(&mut table.header, DISK_GUID, &guid);
        put(&mut table.header, COUNT, &[USUAL.to_le_bytes(), USUAL.to_le_bytes()].concat());
        for (field, value) in [(OWN_PLACE, FIRST_HEADER), (ENTRIES, FIRST_ENTRIES), (FIRST_USABLE, usable)] {
            put(&mut table.header, field, &u64::to_le_bytes(value));
        }
        table.fit(size).filter(|end| *end > usable)?;
        table.seal();
        Some(table)
    }

    /// The table at the beginning of a disk.
    ///
    /// # Errors
    /// There is none, or it is not sound, or of an unusual form.
    pub fn read(disk: &File, sector: u64) -> Result<PartitionTable, TableError> {
        PartitionTable::read_at(disk, sector, (FIRST_HEADER, FIRST_ENTRIES))
    }

    /// The table of a disk of this size in bytes by its copy at the end, for one whose beginning has no table.
    ///
    /// # Errors
    /// As [`PartitionTable::read`].
    pub fn restore(disk: &File, sector: u64, size: u64) -> Result<PartitionTable, TableError> {
        let last = size.checked_div(sector).and_then(|sectors| sectors.checked_sub(1));
        let entries = last.zip(TABLE.checked_div(sector)).and_then(|(last, length)| last.checked_sub(length));
        let (Some(last), Some(entries)) = (last, entries) else { return Err(TableError::Missing) };
        let mut table = PartitionTable::read_at(disk, sector, (last, entries))?;
        table.mirror(FIRST_ENTRIES);
        table.seal();
        if FirstSector::read(disk)? == FirstSector::Blank {
            table.first = Some(protective(sector, last));
        }
        Ok(table)
    }

    /// `place`: the sector of the header, and the first one of the entries.
    fn read_at(disk: &File, sector: u64, place: (u64, u64)) -> Result<PartitionTable, TableError> {
        let mut table =
            PartitionTable { first: None, header: vec![0; HEADER], entries: vec![0; bytes(TABLE)], sector };
        disk.read_exact_at(&mut table.header, place.0.saturating_mul(sector))?;
        disk.read_exact_at(&mut table.entries, place.1.saturating_mul(sector))?;
        if !table.header.starts_with(SIGNATURE) {
            return Err(TableError::Missing);
        }
        let usual = table.header.get(SIGNATURE.len()..CHECKSUM) == Some(&VERSION)
            && (table.number(OWN_PLACE), table.number(ENTRIES)) == place
            && (half(&table.header, COUNT), half(&table.header, SIZE)) == (USUAL, USUAL);
        if !usual {
            return Err(TableError::Unusual);
        }
        let sums =
            |table: &PartitionTable| (half(&table.header, CHECKSUM), half(&table.header, ENTRIES_CHECKSUM));
        let mut sealed = table.clone();
        sealed.seal();
        if sums(&sealed) != sums(&table) {
            return Err(TableError::Damaged);
        }
        // What is usable is neither where the table nor where its copy is.
        let last = table.number(OTHER_PLACE).max(table.number(OWN_PLACE));
        let usable = table.number(FIRST_USABLE)..table.end();
        let free =
            FIRST_ENTRIES.saturating_add(table.entry_sectors())..last.saturating_sub(table.entry_sectors());
        let within = |part: &Range<u64>, of: &Range<u64>| {
            part.start < part.end && part.start >= of.start && part.end <= of.end
        };
        if !within(&usable, &free) || !table.partitions().all(|(_, part, _)| within(&part, &usable)) {
            return Err(TableError::Unusual);
        }
        Ok(table)
    }

    /// The sectors of a partition, from 1; `None`: there is no such one.
    pub fn partition(&self, number: u32) -> Option<Range<u64>> {
        self.partitions().find(|(known, ..)| *known == number).map(|(_, sectors, _)| sectors)
    }

    /// The number, the sectors and the name of each partition.
    pub fn partitions(&self) -> impl Iterator<Item = (u32, Range<u64>, String)> {
        let entries = (1..).zip(self.entries.chunks_exact(ENTRY));
        entries.filter_map(|(number, entry)| Some((number, sectors(entry)?, name(entry))))
    }

    /// The first sector of the partition that is the last on the disk.
    pub fn last_start(&self) -> Option<u64> {
        self.partitions().map(|(_, sectors, _)| sectors.start).max()
    }

    /// The sectors that no partition has, in their order, from one whole number of `alignment` sectors to another.
    pub fn gaps(&self, alignment: u64) -> Vec<Range<u64>> {
        let mut taken: Vec<Range<u64>> = self.partitions().map(|(_, sectors, _)| sectors).collect();
        taken.push(self.end()..u64::MAX);
        kelson_sys::ordered::sort_by_key(&mut taken, |sectors| sectors.start);
        let (mut gaps, mut free) = (Vec::new(), self.number(FIRST_USABLE));
        for sectors in taken {
            let start = free.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
            let end = sectors.start.saturating_sub(sectors.start.checked_rem(alignment).unwrap_or(0));
            if start < end {
                gaps.push(start..end);
            }
            free = free.max(sectors.end);
        }
        gaps
    }

    /// Adds a partition, and returns its number. `None`: all entries are used.
    pub fn add(&mut self, new: &NewPartition) -> Option<u32> {
        let mut entries = (1..).zip(self.entries.chunks_exact_mut(ENTRY));
        let (number, entry) = entries.find(|(_, entry)| !is_used(entry))?;
        entry.fill(0);
        put(entry, KIND, &new.kind);
        put(entry, GUID, &new.guid);
        put(entry, START, &new.sectors.start.to_le_bytes());
        put(entry, END, &new.sectors.end.saturating_sub(1).to_le_bytes());
        let name: Vec<u8> = new.name.encode_utf16().take(LONGEST_NAME).flat_map(u16::to_le_bytes).collect();
        put(entry, NAME, &name);
        self.seal();
        Some(number)
    }

    /// Ends a partition before this sector.
    pub fn set_end(&mut self, number: u32, end: u64) {
        let place = usize::try_from(number).unwrap_or(0).checked_sub(1);
        if let Some(entry) = place.and_then(|place| self.entries.chunks_exact_mut(ENTRY).nth(place)) {
            put(entry, END, &end.saturating_sub(1).to_le_bytes());
        }
        self.seal();
    }

    /// Puts the copy of the table at the end of a disk of this size in bytes, and returns the first sector after the last one
    /// that a partition may have. `None`: the disk is smaller than before.
    pub fn fit(&mut self, size: u64) -> Option<u64> {
        let last = size.checked_div(self.sector)?.checked_sub(1)?;
        if last < self.number(OTHER_PLACE) {
            return None;
        }
        if last > self.number(OTHER_PLACE) {
            let end = last.checked_sub(self.entry_sectors())?;
            put(&mut self.header, OTHER_PLACE, &last.to_le_bytes());
            put(&mut self.header, LAST_USABLE, &end.checked_sub(1)?.to_le_bytes());
            self.seal();
        }
        Some(self.end())
    }

    /// The bytes of the disk where the copy of the table is: the entries, and the header.
    pub fn copy_place(&self) -> Range<u64> {
        let last = self.number(OTHER_PLACE);
        let first = last.saturating_sub(self.entry_sectors());
        first.saturating_mul(self.sector)..last.saturating_add(1).saturating_mul(self.sector)
    }

    /// The pieces in which it is written, each with its place on the disk. Each must be on the disk before the next one.
    ///
    /// The copy is first: until it is there, the old table counts. All that changes at the beginning of a disk with sectors of
    /// 512 bytes is in one block of 4 KiB, if only the first 24 entries do. A new table counts once the first sector is
    /// there.
    pub fn steps(&self) -> Vec<(u64, Vec<u8>)> {
        let mut copy = self.clone();
        copy.mirror(self.number(OTHER_PLACE).saturating_sub(self.entry_sectors()));
        copy.seal();
        let head = FIRST_ENTRIES.saturating_mul(self.sector).max(BLOCK);
        let table = [&self.header_sector()[..], &self.entries].concat();
        let (first, rest) =
            table.split_at_checked(bytes(head.saturating_sub(self.sector))).unwrap_or((&table, &[]));
        let mut steps = vec![
            (self.copy_place().start, [&copy.entries[..], &copy.header_sector()].concat()),
            (head, rest.to_vec()),
            (self.sector, first.to_vec()),
        ];
        steps.extend(self.first.clone().map(|first| (0, first)));
        steps
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&self, disk: &File) -> io::Result<()> {
        for (place, bytes) in self.steps() {
            disk.write_all_at(&bytes, place)?;
            disk.sync_all()?;
        }
        Ok(())
    }

    /// The first sector after the last one that a partition may have.
    fn end(&self) -> u64 {
        self.number(LAST_USABLE).saturating_add(1)
    }

    /// How many sectors the entries take.
    fn entry_sectors(&self) -> u64 {
        TABLE.checked_div(self.sector).unwrap_or(0)
    }

    /// Makes the table of its copy, or the other way round. `entries`: the first sector of the entries there.
    fn mirror(&mut self, entries: u64) {
        let (own, other) = (self.number(OWN_PLACE), self.number(OTHER_PLACE));
        for (field, value) in [(OWN_PLACE, other), (OTHER_PLACE, own), (ENTRIES, entries)] {
            put(&mut self.header, field, &value.to_le_bytes());
        }
    }

    fn header_sector(&self) -> Vec<u8> {
        let mut sector = self.header.clone();
        sector.resize(bytes(self.sector), 0);
        sector
    }

    /// Makes its checksums those of its contents.
    fn seal(&mut self) {
        put(&mut self.header, ENTRIES_CHECKSUM, &crc32(&self.entries).to_le_bytes());
        put(&mut self.header, CHECKSUM, &[0; 4]);
        let sum = crc32(&self.header);
        put(&mut self.header, CHECKSUM, &sum.to_le_bytes());
    }

    fn number(&self, field: usize) -> u64 {
        number(&self.header, field)
    }
}

impl FirstSector {
    /// # Errors
    /// It cannot be read.
    pub fn read(disk: &File) -> io::Result<FirstSector> {
        let mut sector = [0; 512];
        disk.read_exact_at(&mut sector, 0)?;
        let records = sector.get(RECORDS).unwrap_or_default();
        let is_marked = sector.ends_with(&MARK);
        Ok(if sector.iter().all(|byte| *byte == 0) {
            FirstSector::Blank
        } else if is_marked && records.chunks_exact(RECORD).any(|record| record.get(4) == Some(&PROTECTIVE)) {
            FirstSector::Protective
        } else if is_marked {
            FirstSector::Marked
        } else {
            FirstSector::Other
        })
    }
}

/// The first sector of a disk with a GPT: one record of all sectors behind it, as far as they can be counted there.
fn protective(sector: u64, last: u64) -> Vec<u8> {
    let mut first = vec![0; bytes(sector)];
    let length = u32::try_from(last).unwrap_or(u32::MAX);
    // Places in the form of cylinders: of the first sector, and one that means none.
    let record =
        [&[0, 0, 2, 0, PROTECTIVE, 0xFF, 0xFF, 0xFF][..], &1_u32.to_le_bytes(), &length.to_le_bytes()];
    put(&mut first, RECORDS.start, &record.concat());
    put(&mut first, RECORDS.end, &MARK);
    first
}

/// The length of a buffer.
fn bytes(length: u64) -> usize {
    usize::try_from(length).unwrap_or(0)
}

#[cfg(test)]
mod tests;
