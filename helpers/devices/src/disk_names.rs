//! The names below `/dev/disk` of a disk or a partition, each of which is read from the disk itself or asked of it, so that
//! all of this may hang.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use kelson_spec::disk::NameKind;

use crate::device::{Device, attribute, below};
use crate::links::plain;
use crate::partition_names::partition_names;
use crate::superblock::identify;

/// The size of a sector where the kernel does not say another.
const SECTOR: u64 = 512;

/// The names of this block device. `sys` and `dev`: where sysfs and the nodes are.
pub fn names(sys: &Path, dev: &Path, device: &Device) -> BTreeSet<String> {
    own_names(sys, device).into_iter().chain(read_names(sys, dev, device)).collect()
}

/// The names that the disk itself has, whatever is on it.
pub fn own_names(sys: &Path, device: &Device) -> Vec<String> {
    let (disk, part) = place(device);
    let folder = below(sys, disk);
    let of_part = |name: String| part.map_or(name.clone(), |number| format!("{name}-part{number}"));
    let serial = serial(&folder).map(|serial| (NameKind::Serial, of_part(serial)));
    let ids = ids(&folder).into_iter().map(|id| (NameKind::Id, of_part(id)));
    ids.chain(serial).filter_map(|(kind, name)| link(kind, &name)).collect()
}

/// The names that are read from the disk: of its table of partitions and of its file system.
pub fn read_names(sys: &Path, dev: &Path, device: &Device) -> Vec<String> {
    // An empty drive has nothing to be read.
    if attribute(&below(sys, &device.path), "size").is_none_or(|size| size == "0") {
        return Vec::new();
    }
    let (disk, part) = place(device);
    let from_table = |number| {
        let sector = attribute(&below(sys, disk), "queue/logical_block_size");
        let sector = sector.and_then(|size| size.parse().ok()).unwrap_or(SECTOR);
        let node = Device::read(sys, disk)?;
        partition_names(&open(&dev.join(node.node()?))?, sector, number)
    };
    let known = |name: &str| device.get(name).map(str::to_owned);
    let (known_label, known_uuid) = (known("PARTNAME"), known("PARTUUID"));
    let is_known = known_label.is_some() && known_uuid.is_some();
    let in_table = part.filter(|_| !is_known).and_then(from_table);
    let (part_label, part_uuid) = in_table.map_or((None, None), |names| (names.label, Some(names.uuid)));
    let found = device.node().and_then(|node| identify(&open(&dev.join(node))?));
    let (label, uuid) = found.map_or((None, None), |found| (found.label, found.uuid));
    let names = [
        (NameKind::PartitionLabel, known_label.or(part_label)),
        (NameKind::PartitionUuid, part.and(known_uuid.or(part_uuid))),
        (NameKind::Label, label),
        (NameKind::Uuid, uuid),
    ];
    names.into_iter().filter_map(|(kind, name)| link(kind, &name?)).collect()
}

/// The name of a link below `/dev`.
fn link(kind: NameKind, name: &str) -> Option<String> {
    plain(name).map(|name| format!("disk/{}/{name}", kind.folder()))
}

/// The path of the disk, and the number of the partition on it.
fn place(device: &Device) -> (&str, Option<u32>) {
    let part = device.get("PARTN").and_then(|number| number.parse().ok());
    (part.and(device.parent()).unwrap_or(&device.path), part)
}

pub fn open(path: &Path) -> Option<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()
}

/// The serial number of a disk.
fn serial(disk: &Path) -> Option<String> {
    let named = ["serial", "device/serial"].into_iter().find_map(|name| attribute(disk, name));
    let page = || serial_in_page(&std::fs::read(disk.join("device/vpd_pg80")).ok()?);
    named.or_else(page).filter(|serial| !serial.is_empty())
}

/// The serial number in the page 80h that a SCSI or ATA disk gives of itself: the number of the page in the second byte, and the
/// length of the text in two more before it. Source: SPC-4, 7.8.15.
pub fn serial_in_page(page: &[u8]) -> Option<String> {
    let ([_, 0x80, high, low], text) = page.split_first_chunk::<4>()? else { return None };
    let text = text.get(..usize::from(u16::from_be_bytes([*high, *low])))?;
    Some(String::from_utf8_lossy(text).trim_matches(['\0', ' ']).to_owned())
}

/// The names that the makers of a disk gave it, as udev writes them.
fn ids(disk: &Path) -> Vec<String> {
    let of = |name: &str| attribute(disk, name);
    let mut ids = Vec::new();
    let kind = disk.file_name().unwrap_or_default().to_string_lossy();
    if kind.starts_with("vd") {
        ids.extend(of("serial").map(|serial| format!("virtio-{serial}")));
    }
    if kind.starts_with("nvme") {
        ids.extend(of("wwid").map(|wwid| format!("nvme-{wwid}")));
    }
    if kind.starts_with("mmcblk") {
        ids.extend(
            of("device/name").zip(of("device/serial")).map(|(name, serial)| format!("mmc-{name}_{serial}")),
        );
    }
    if let Some(number) = of("device/wwid").as_deref().and_then(|wwid| wwid.strip_prefix("naa.")) {
        ids.push(format!("wwn-0x{number}"));
    }
    ids
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::device::testing::make;

    #[test]
    fn a_partition_has_the_names_of_its_disk_its_table_and_its_file_system() {
        let (sys, dev) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let disk = "/devices/virtio1/block/vda";
        let first = format!("{disk}/vda1");
        make(sys.path(), disk, "block", "DEVNAME=vda\n", &[("size", "8192"), ("serial", "KELSON 1")]);
        let uevent = "DEVNAME=vda1\nPARTN=1\nPARTNAME=my data\n";
        make(sys.path(), &first, "block", uevent, &[("size", "8190")]);
        let mut table = vec![0; 512];
        table[440..444].copy_from_slice(&[0x78, 0x56, 0x34, 0x12]);
        table[510..512].copy_from_slice(&[0x55, 0xAA]);
        std::fs::write(dev.path().join("vda"), table).unwrap();
        let node = dev.path().join("vda1");
        File::create(&node).unwrap().set_len(4 << 20).unwrap();
        let uuid = "3f2c1d74-8d6a-4b7e-9c11-0a1b2c3d4e5f";
        let made = Command::new("/sbin/mke2fs")
            .args(["-q", "-t", "ext4", "-L", "DATA", "-U", uuid])
            .arg(&node)
            .status();
        assert!(made.unwrap().success());
        let device = Device::read(sys.path(), &first).unwrap();
        let found: Vec<String> = names(sys.path(), dev.path(), &device).into_iter().collect();
        assert_eq!(
            found,
            [
                "disk/by-id/virtio-KELSON\\x201-part1".to_owned(),
                "disk/by-label/DATA".to_owned(),
                "disk/by-partlabel/my\\x20data".to_owned(),
                "disk/by-partuuid/12345678-01".to_owned(),
                "disk/by-serial/KELSON\\x201-part1".to_owned(),
                format!("disk/by-uuid/{uuid}"),
            ]
        );
    }

    #[test]
    fn a_disk_names_itself_in_a_page() {
        let page =
            |length: u16, text: &str| [&[0, 0x80][..], &length.to_be_bytes(), text.as_bytes()].concat();
        assert_eq!(serial_in_page(&page(8, "  KEL-1\0and more")).as_deref(), Some("KEL-1"));
        assert_eq!(serial_in_page(&page(0, "")).as_deref(), Some(""));
        assert_eq!(serial_in_page(&page(5, "KEL")), None, "it ends early");
        assert_eq!(serial_in_page(&[0, 0x83, 0, 1, b'K']), None, "another page");
        assert_eq!(serial_in_page(&[0, 0x80, 0]), None);
    }

    #[test]
    fn a_drive_without_a_medium_is_not_read() {
        let sys = tempfile::tempdir().unwrap();
        let path = "/devices/ata1/block/sr0";
        make(sys.path(), path, "block", "DEVNAME=sr0\n", &[("size", "0"), ("device/wwid", "naa.5000c500")]);
        let device = Device::read(sys.path(), path).unwrap();
        let found: Vec<String> = names(sys.path(), Path::new("/nonexistent"), &device).into_iter().collect();
        assert_eq!(found, ["disk/by-id/wwn-0x5000c500"]);
    }
}
