//! The layout of a table of partitions with GUIDs (GPT), as the UEFI specification has it.

use std::ops::Range;

/// The first bytes of a header.
pub const SIGNATURE: &[u8; 8] = b"EFI PART";
/// The length of a header; the rest of its sector is zero.
pub const HEADER: usize = 92;
/// The sector of the header at the beginning of a disk.
pub const FIRST_HEADER: u64 = 1;

/// Where the fields of a header are.
pub const CHECKSUM: usize = 16;
pub const OWN_PLACE: usize = 24;
pub const OTHER_PLACE: usize = 32;
pub const FIRST_USABLE: usize = 40;
pub const LAST_USABLE: usize = 48;
pub const DISK_GUID: usize = 56;
pub const ENTRIES: usize = 72;
pub const COUNT: usize = 80;
pub const SIZE: usize = 84;
pub const ENTRIES_CHECKSUM: usize = 88;

/// The size of an entry, as all programs write it.
pub const ENTRY: usize = 128;
/// Where the fields of an entry are: the kind of the partition and its own GUID, its first and last sector, its name.
pub const KIND: usize = 0;
pub const GUID: usize = 16;
pub const START: usize = 32;
pub const END: usize = 40;
pub const NAME: usize = 56;
/// The longest name, in units of UTF-16.
pub const LONGEST_NAME: usize = 36;

/// Whether the entry is one of a partition.
pub fn is_used(entry: &[u8]) -> bool {
    entry.get(KIND..GUID).is_some_and(|kind| kind.iter().any(|byte| *byte != 0))
}

/// The sectors of a partition; `None`: the entry is not used.
pub fn sectors(entry: &[u8]) -> Option<Range<u64>> {
    is_used(entry).then(|| number(entry, START)..number(entry, END).saturating_add(1))
}

/// The name in an entry; empty: none.
pub fn name(entry: &[u8]) -> String {
    let units = entry.get(NAME..).unwrap_or_default().chunks_exact(2).take(LONGEST_NAME);
    let units = units.filter_map(|unit| unit.first_chunk().map(|bytes| u16::from_le_bytes(*bytes)));
    char::decode_utf16(units.take_while(|unit| *unit != 0)).map(|letter| letter.unwrap_or('?')).collect()
}

/// A GUID as text. Its first three fields are little-endian.
pub fn guid_text(bytes: &[u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let (first, second, third) =
        (u32::from_le_bytes([*a, *b, *c, *d]), u16::from_le_bytes([*e, *f]), u16::from_le_bytes([*g, *h]));
    let [i, j, node @ ..] = rest;
    let node: String = node.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{first:08x}-{second:04x}-{third:04x}-{i:02x}{j:02x}-{node}")
}

/// A field of 64 bits; 0 past the end.
pub fn number(bytes: &[u8], field: usize) -> u64 {
    let bytes = bytes.get(field..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// A field of 32 bits; 0 past the end.
pub fn half(bytes: &[u8], field: usize) -> u32 {
    let bytes = bytes.get(field..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Writes a field.
pub fn put(bytes: &mut [u8], field: usize, value: &[u8]) {
    bytes.iter_mut().skip(field).zip(value).for_each(|(to, from)| *to = *from);
}
