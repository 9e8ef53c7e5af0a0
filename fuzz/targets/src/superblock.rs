//! The superblock of a disk.

use kelson_task::{ReadAt, identify};

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
}
