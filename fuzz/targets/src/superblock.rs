//! The superblock of a disk, and its table of partitions.

use kelson_devices::{ReadAt, identify, partition_names};

struct Disk<'a>(&'a [u8]);

impl ReadAt for Disk<'_> {
    fn read_at(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let start = usize::try_from(offset).ok()?;
        Some(self.0.get(start..start.checked_add(length)?)?.to_vec())
    }
}

/// The first bytes of a disk.
pub fn disk(data: &[u8]) {
    if let Some(found) = identify(&Disk(data)) {
        assert!(found.label.is_none_or(|label| label.len() <= 1024));
        assert!(found.uuid.is_none_or(|uuid| uuid.len() <= 36));
    }
    for number in [1, 2, 128] {
        assert!(partition_names(&Disk(data), 512, number).is_none_or(|names| names.uuid.len() <= 36));
    }
}
