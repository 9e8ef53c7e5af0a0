//! The type, label and UUID of a disk's file system, read from its superblock.
//!
//! `LABEL=` and `UUID=` need this, for the file systems that a small host boots from. A disk
//! may be dead, and what is on it is a stranger's.

use std::fmt::Write as _;

use kelson_spec::encryption::LUKS;

/// The contents of a superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// The name that mount(2) takes; `swap` for swap space, [`LUKS`] for an encrypted disk.
    pub fs_type: &'static str,
    pub label: Option<String>,
    pub uuid: Option<String>,
    /// Of a file system that lies on several disks: the UUID of this one. They have the label and the UUID above in common.
    pub member: Option<String>,
}

/// Reads `length` bytes at an offset, or `None` past the end.
pub trait ReadAt {
    fn read_at(&self, offset: u64, length: usize) -> Option<Vec<u8>>;
}

impl ReadAt for std::fs::File {
    fn read_at(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        std::os::unix::fs::FileExt::read_exact_at(self, &mut bytes, offset).ok()?;
        Some(bytes)
    }
}

/// Identifies the file system on a disk; `None`: none that is known.
pub fn identify(disk: &impl ReadAt) -> Option<Superblock> {
    [luks, squashfs, xfs, ext4, btrfs, swap, vfat, iso9660]
        .into_iter()
        .find_map(|look| look(&|at, length| disk.read_at(at, length)))
}

type Read<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

/// An encrypted disk.
fn luks(read: Read) -> Option<Superblock> {
    let block = read(0, 208)?;
    (block.get(..6)? == b"LUKS\xBA\xBE").then_some(())?;
    // The first version has no label.
    let label = block.get(24..72).filter(|_| block.get(6..8) == Some(&[0, 2])).and_then(text);
    Some(Superblock { fs_type: LUKS, label, uuid: text(block.get(168..208)?), member: None })
}

fn squashfs(read: Read) -> Option<Superblock> {
    (read(0, 4)? == b"hsqs").then_some(Superblock {
        fs_type: "squashfs",
        label: None,
        uuid: None,
        member: None,
    })
}

fn xfs(read: Read) -> Option<Superblock> {
    let block = read(0, 120)?;
    (block.get(..4)? == b"XFSB").then_some(())?;
    Some(Superblock {
        fs_type: "xfs",
        label: text(block.get(108..120)?),
        uuid: uuid(block.get(32..48)?),
        member: None,
    })
}

/// Features that ext3 and ext2 do not have; the kernel's ext4 mounts all three, so one name serves.
fn ext4(read: Read) -> Option<Superblock> {
    let block = read(1024, 136)?;
    (block.get(0x38..0x3A)? == [0x53, 0xEF]).then_some(())?;
    Some(Superblock {
        fs_type: "ext4",
        label: text(block.get(0x78..0x88)?),
        uuid: uuid(block.get(0x68..0x78)?),
        member: None,
    })
}

fn btrfs(read: Read) -> Option<Superblock> {
    let block = read(65536, 0x22B)?;
    (block.get(0x40..0x48)? == b"_BHRfS_M").then_some(())?;
    let disks = u64::from_le_bytes(*block.get(0x88..)?.first_chunk()?);
    let member = block.get(0x10B..0x11B).filter(|_| disks > 1).and_then(uuid);
    Some(Superblock {
        fs_type: "btrfs",
        label: text(block.get(0x12B..0x22B)?),
        uuid: uuid(block.get(0x20..0x30)?),
        member,
    })
}

fn swap(read: Read) -> Option<Superblock> {
    // The page size of every machine that Kelson is built for.
    (read(4086, 10)? == b"SWAPSPACE2").then_some(())?;
    let block = read(1024, 44)?;
    Some(Superblock {
        fs_type: "swap",
        label: text(block.get(28..44)?),
        uuid: uuid(block.get(12..28)?),
        member: None,
    })
}

fn vfat(read: Read) -> Option<Superblock> {
    let block = read(0, 512)?;
    (block.get(510..512)? == [0x55, 0xAA]).then_some(())?;
    let (id, label) = if block.get(0x52..0x57)? == b"FAT32" {
        (block.get(0x43..0x47)?, block.get(0x47..0x52)?)
    } else if block.get(0x36..0x39)? == b"FAT" {
        (block.get(0x27..0x2B)?, block.get(0x2B..0x36)?)
    } else {
        return None;
    };
    let id = u32::from_le_bytes(id.try_into().ok()?);
    let label = text(label).filter(|label| label != "NO NAME");
    let uuid = Some(format!("{:04X}-{:04X}", id >> 16, id & 0xFFFF));
    Some(Superblock { fs_type: "vfat", label, uuid, member: None })
}

/// The first volume descriptor of ECMA-119; the label is filled with spaces.
fn iso9660(read: Read) -> Option<Superblock> {
    let block = read(32768, 72)?;
    (block.get(..6)? == b"\x01CD001").then_some(())?;
    Some(Superblock { fs_type: "iso9660", label: text(block.get(40..72)?), uuid: None, member: None })
}

/// A label: up to its first NUL, without spaces behind it; an empty one is none.
fn text(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.split(|byte| *byte == 0).next()?;
    let label = String::from_utf8_lossy(bytes).trim_end().to_owned();
    (!label.is_empty()).then_some(label)
}

fn uuid(bytes: &[u8]) -> Option<String> {
    let mut out = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        write!(out, "{byte:02x}").ok()?;
    }
    bytes.iter().any(|byte| *byte != 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::Command;

    const UUID: &str = "3f2c1d74-8d6a-4b7e-9c11-0a1b2c3d4e5f";

    fn superblock(fs_type: &'static str, label: &str, uuid: &str) -> Superblock {
        Superblock { fs_type, label: Some(label.to_owned()), uuid: Some(uuid.to_owned()), member: None }
    }

    /// A file of its own that `tool` formats.
    fn image(name: &str, megabytes: u64, tool: &str, args: &[&str]) -> Option<Superblock> {
        let path = std::env::temp_dir().join(format!("kelson-superblock-{}-{name}", std::process::id()));
        let file = File::create(&path).unwrap();
        file.set_len(megabytes << 20).unwrap();
        let status = Command::new(tool).args(args).arg(&path).output().unwrap().status;
        assert!(status.success(), "{tool} failed");
        let found = identify(&File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        found
    }

    #[test]
    fn ext4_with_label_and_uuid() {
        let found =
            image("ext4", 4, "/sbin/mke2fs", &["-q", "-t", "ext4", "-L", "STATE", "-U", UUID]).unwrap();
        assert_eq!(found, superblock("ext4", "STATE", UUID));
    }

    #[test]
    fn ext4_without_a_label() {
        let found = image("bare", 4, "/sbin/mke2fs", &["-q", "-t", "ext2"]).unwrap();
        assert_eq!(found.label, None);
        assert!(found.uuid.is_some());
    }

    #[test]
    fn swap_space() {
        let found = image("swap", 4, "/sbin/mkswap", &["-q", "-L", "SWAP", "-U", UUID]).unwrap();
        assert_eq!(found, superblock("swap", "SWAP", UUID));
    }

    /// A disk that is zero but for these bytes at these offsets.
    struct Sparse(&'static [(u64, &'static [u8])]);

    impl ReadAt for Sparse {
        fn read_at(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
            let mut out = vec![0; length];
            for (at, bytes) in self.0 {
                for (index, byte) in bytes.iter().enumerate() {
                    if let Some(slot) = (at + index as u64)
                        .checked_sub(offset)
                        .and_then(|i| out.get_mut(usize::try_from(i).unwrap()))
                    {
                        *slot = *byte;
                    }
                }
            }
            Some(out)
        }
    }

    #[test]
    fn the_others_by_their_written_form() {
        let fat = identify(&Sparse(&[
            (0x43, &[0x78, 0x56, 0x34, 0x12]),
            (0x47, b"EFI        FAT32   "),
            (510, &[0x55, 0xAA]),
        ]));
        assert_eq!(fat, Some(superblock("vfat", "EFI", "1234-5678")));
        let btrfs = identify(&Sparse(&[
            (65536 + 0x20, &[0x11; 16]),
            (65536 + 0x40, b"_BHRfS_M"),
            (65536 + 0x12B, b"data"),
        ]));
        let btrfs = btrfs.unwrap();
        assert_eq!(btrfs.uuid.unwrap(), "11111111-1111-1111-1111-111111111111");
        assert_eq!(btrfs.member, None);
        let of_two = identify(&Sparse(&[
            (65536 + 0x20, &[0x11; 16]),
            (65536 + 0x40, b"_BHRfS_M"),
            (65536 + 0x88, &[2]),
            (65536 + 0x10B, &[0x33; 16]),
        ]));
        assert_eq!(of_two.unwrap().member.unwrap(), "33333333-3333-3333-3333-333333333333");
        let xfs = identify(&Sparse(&[(0, b"XFSB"), (32, &[0x22; 16]), (108, b"logs")])).unwrap();
        assert_eq!((xfs.fs_type, xfs.label.as_deref()), ("xfs", Some("logs")));
        let iso =
            identify(&Sparse(&[(32768, b"\x01CD001\x01"), (32808, b"cidata                          ")]));
        let iso = iso.unwrap();
        assert_eq!((iso.fs_type, iso.label.as_deref(), iso.uuid), ("iso9660", Some("cidata"), None));
        assert_eq!(identify(&Sparse(&[(0, b"hsqs")])).unwrap().fs_type, "squashfs");
        assert_eq!(identify(&Sparse(&[])), None);
    }

    #[test]
    fn a_disk_that_is_too_short_is_nothing() {
        assert_eq!(image("short", 0, "/bin/true", &[]), None);
    }
}
