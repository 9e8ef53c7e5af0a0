//! Block devices and their partitions.

use std::fs;
use std::path::Path;
use std::time::Duration;

use kelson_proto::v1::Disk;
use kelson_sys::mountinfo::Mount;
use kelson_sys::ordered;

use crate::answer::Unanswered;
use crate::mounts;
use crate::system::{System, lasting, line, number};

/// The kernel counts in these, whatever the disk has.
const SECTOR: u64 = 512;

/// In order of their names, each with its partitions after it. Loop and RAM devices of no size are left out.
///
/// # Errors
/// When sys cannot be listed.
pub fn read(system: &System) -> Result<Vec<Disk>, Unanswered> {
    let mounted = mounts::lines(system).unwrap_or_default();
    let folder = system.sys.join("block");
    // A container may see no disk at all.
    let names = names(&folder).map_err(|error| Unanswered::reading("/sys/block", &error))?;
    let mut disks = Vec::new();
    for name in names {
        let at = folder.join(&name);
        let disk = device(&at, &name, "", &mounted);
        if disk.size == 0 && ["loop", "ram", "nbd", "zram"].iter().any(|kind| name.starts_with(kind)) {
            continue;
        }
        disks.push(disk);
        for part in self::names(&at).unwrap_or_default() {
            if at.join(&part).join("partition").exists() {
                disks.push(device(&at.join(&part), &part, &name, &mounted));
            }
        }
    }
    Ok(disks)
}

fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names: Vec<String> =
        fs::read_dir(folder)?.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    ordered::sort_by(&mut names, |a, b| (a.len(), a).cmp(&(b.len(), b)));
    Ok(names)
}

fn device(at: &Path, name: &str, parent: &str, mounted: &[Mount]) -> Disk {
    let bytes = |file: &str| number(&at.join(file)).unwrap_or(0).saturating_mul(SECTOR);
    let is = |file: &str| number(&at.join(file)) == Some(1);
    let number = line(&at.join("dev"));
    let of_it = || mounted.iter().filter(|mount| mount.device.to_string() == number);
    // Documentation/block/stat.rst: of reads and of writes each their count, merges, sectors and time.
    let stat = line(&at.join("stat"));
    let stat: Vec<u64> = stat.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
    let nth = |place: usize| stat.get(place).copied().unwrap_or(0);
    let serial = ["serial", "device/serial"].map(|file| line(&at.join(file)));
    Disk {
        name: name.replace('!', "/"),
        parent: parent.replace('!', "/"),
        size: bytes("size"),
        model: line(&at.join("device/model")),
        serial: serial.into_iter().find(|serial| !serial.is_empty()).unwrap_or_default(),
        read_only: is("ro"),
        removable: is("removable"),
        rotational: is("queue/rotational"),
        targets: of_it().map(|mount| mount.target.to_string_lossy().into_owned()).collect(),
        r#type: of_it().next().map(|mount| mount.fs_type.clone()).unwrap_or_default(),
        read_bytes: nth(2).saturating_mul(SECTOR),
        written_bytes: nth(6).saturating_mul(SECTOR),
        busy: Some(lasting(Duration::from_millis(nth(9)))),
        backing: line(&at.join("loop/backing_file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Played;

    #[test]
    fn disks_with_their_partitions() {
        let played = Played::new(&[
            (
                "proc/self/mountinfo",
                "22 1 254:1 / /var rw - ext4 /dev/vda1 rw\n23 1 254:1 /x /srv rw - ext4 /dev/vda1 rw\n",
            ),
            ("sys/block/vda/size", "2048\n"),
            ("sys/block/vda/dev", "254:0\n"),
            ("sys/block/vda/ro", "0\n"),
            ("sys/block/vda/serial", "STATE\n"),
            ("sys/block/vda/queue/rotational", "1\n"),
            ("sys/block/vda/stat", " 10 0 4 7 20 0 8 9 0 1500 16\n"),
            ("sys/block/vda/vda10/partition", "10\n"),
            ("sys/block/vda/vda10/size", "8\n"),
            ("sys/block/vda/vda1/partition", "1\n"),
            ("sys/block/vda/vda1/size", "1024\n"),
            ("sys/block/vda/vda1/dev", "254:1\n"),
            ("sys/block/loop0/size", "0\n"),
            ("sys/block/loop1/size", "8\n"),
            ("sys/block/loop1/ro", "1\n"),
            ("sys/block/loop1/loop/backing_file", "/images/root.squashfs\n"),
            ("sys/block/cciss!c0d0/size", "16\n"),
        ]);
        let disks = read(&played.system).unwrap();
        let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["vda", "vda1", "vda10", "loop1", "cciss/c0d0"]);
        let (disk, part) = (&disks[0], &disks[1]);
        assert_eq!((disk.size, disk.serial.as_str(), disk.rotational), (1 << 20, "STATE", true));
        assert_eq!((disk.read_bytes, disk.written_bytes), (2048, 4096));
        assert_eq!(disk.busy, Some(lasting(Duration::from_millis(1500))));
        assert_eq!((part.parent.as_str(), part.r#type.as_str()), ("vda", "ext4"));
        assert_eq!(part.targets, ["/var", "/srv"]);
        assert_eq!((disks[3].backing.as_str(), disks[3].read_only), ("/images/root.squashfs", true));
    }
}
