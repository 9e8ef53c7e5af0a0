//! The names by which a configuration names a disk: a path below `/dev`, or `KIND=VALUE`.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// How a name leads to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// The label of the file system.
    Label,
    /// The UUID of the file system.
    Uuid,
    /// The name of the partition in a GPT.
    PartitionLabel,
    /// The UUID of the partition.
    PartitionUuid,
    /// The serial number of the disk; `-partN` after it stands for a partition.
    Serial,
    /// The name below `/dev/disk/by-id`.
    Id,
}

impl NameKind {
    pub const ALL: [NameKind; 6] = [
        NameKind::Label,
        NameKind::Uuid,
        NameKind::PartitionLabel,
        NameKind::PartitionUuid,
        NameKind::Serial,
        NameKind::Id,
    ];

    /// The word before the `=`.
    pub fn word(self) -> &'static str {
        match self {
            NameKind::Label => "LABEL",
            NameKind::Uuid => "UUID",
            NameKind::PartitionLabel => "PARTLABEL",
            NameKind::PartitionUuid => "PARTUUID",
            NameKind::Serial => "SERIAL",
            NameKind::Id => "ID",
        }
    }

    /// The folder below `/dev/disk` of the links for such names.
    pub fn folder(self) -> &'static str {
        match self {
            NameKind::Label => "by-label",
            NameKind::Uuid => "by-uuid",
            NameKind::PartitionLabel => "by-partlabel",
            NameKind::PartitionUuid => "by-partuuid",
            NameKind::Serial => "by-serial",
            NameKind::Id => "by-id",
        }
    }

    /// Whether a disk has the name without a file system on it.
    pub fn is_of_blank_disk(self) -> bool {
        !matches!(self, NameKind::Label | NameKind::Uuid)
    }
}

/// The name of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskName<'a> {
    Path(&'a Path),
    Named(NameKind, &'a str),
}

impl<'a> DiskName<'a> {
    /// Reads the source of a mount. `None`: it is no name of a disk, but such as `tmpfs` or the path of a folder.
    pub fn parse(source: &'a str) -> Option<DiskName<'a>> {
        if source.starts_with("/dev/") {
            return Some(DiskName::Path(Path::new(source)));
        }
        let (word, value) = source.split_once('=')?;
        let kind = NameKind::ALL.into_iter().find(|kind| kind.word() == word)?;
        Some(DiskName::Named(kind, value.trim_matches('"')))
    }
}

/// Whether a file system is checked before it is mounted with these options: a check writes to the disk, and is for ext4 and
/// its forerunners. `found`: what is on the disk.
pub fn is_checked<'o>(
    fs_type: &str,
    options: impl DoubleEndedIterator<Item = &'o str>,
    found: Option<&str>,
) -> bool {
    let mut words = options.filter(|word| matches!(*word, "ro" | "rw"));
    words.next_back() != Some("ro")
        && found == Some("ext4")
        && matches!(fs_type, "" | "auto" | "ext2" | "ext3" | "ext4")
}

/// Whether a disk gets a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Format {
    #[default]
    Never,
    /// One that is known to be blank.
    IfBlank,
}

impl Format {
    /// The types of file systems that can be made.
    pub const TYPES: [&str; 3] = ["ext4", "xfs", "vfat"];
    /// Those that can grow while they are mounted.
    pub const GROWING: [&str; 2] = ["ext4", "xfs"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let parse = DiskName::parse;
        assert_eq!(parse("LABEL=STATE"), Some(DiskName::Named(NameKind::Label, "STATE")));
        assert_eq!(parse("UUID=\"ab\""), Some(DiskName::Named(NameKind::Uuid, "ab")));
        assert_eq!(parse("SERIAL=a=b"), Some(DiskName::Named(NameKind::Serial, "a=b")));
        assert_eq!(parse("/dev/vda1"), Some(DiskName::Path(Path::new("/dev/vda1"))));
        for other in ["tmpfs", "/srv", "label=a", "server:/export", "LABLE=a"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
