//! `partitions` of the machine file.

use super::mapping::{Mapping, keys};
use super::mount::disk;
use super::values::{any_word, duration, size, word};
use crate::decode::quoted;
use kelson_spec::disk::{DiskName, NameKind};
use kelson_spec::partitions::{DiskPartitionsSpec, PartitionSpec, TYPES, type_guid};

/// Partitions begin and end at whole MiB.
const LEAST: u64 = 1 << 20;
/// The longest name that a table of partitions holds.
const LONGEST_LABEL: usize = 36;

/// A disk and its partitions.
pub fn partitions() -> Mapping<DiskPartitionsSpec> {
    let whole = disk().but(|source| match DiskName::parse(source) {
        Some(DiskName::Named(kind, _)) if !matches!(kind, NameKind::Serial | NameKind::Id) => Some(format!(
            "{} is the name of a part of a disk; name the disk by SERIAL=, ID= or its path",
            kind.word()
        )),
        _ => None,
    });
    let all = Mapping::codec(partition)
        .some("a list of partitions", "no partition is named; write such as [{label: DATA}], or leave the disk out")
        .but(|parts| {
            let (_, others) = parts.split_last()?;
            let endless = others.iter().find(|part| part.size.is_none())?;
            Some(format!(
                "only the last partition may be without size, because it takes what the others leave; give {} one",
                quoted(&endless.label)
            ))
        });
    keys! {
        Mapping::new("partitions", DiskPartitionsSpec::default);
        needed "disk" disk = whole, "disk: SERIAL=NUMBER", "the disk by its path, `SERIAL=…` or `ID=…` ([Names of \
             disks](howto/disks.md#names))";
        needed "create" create = all, "create: [{label: DATA}]",
            "its partitions. One whose label the disk has stays as it is";
        key "wait" wait = duration(), "how long the boot waits for the disk";
    }
    .strict()
}

fn partition() -> Mapping<PartitionSpec> {
    let label = any_word("label", "DATA").but(|label| {
        let sound = label.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
            && (1..=LONGEST_LABEL).contains(&label.len())
            && label.trim() == label;
        (!sound).then(|| {
            format!(
                "{} is no label of a partition; write at most {LONGEST_LABEL} characters of ASCII",
                quoted(label)
            )
        })
    });
    let kind = word("type of a partition", "^[a-zA-Z0-9-]+$", "linux").but(|kind| {
        let names = TYPES.map(|(name, _)| name).join(", ");
        type_guid(kind).is_none().then(|| format!("{} is not one of {names}, and no GUID", quoted(kind)))
    });
    keys! {
        Mapping::new("partition", PartitionSpec::default);
        needed "label" label = label, "label: DATA",
            "its name in the table of partitions: `PARTLABEL=` finds the partition by it. No two partitions of the file have \
             the same one";
        means "size" size = size(LEAST).optional(), "all that is free; the last partition alone may be without",
            "its size, of which Kelson makes whole MiB";
        key "type" kind = kind, "`linux`, `swap`, `esp` (of UEFI), `luks`, `lvm`, `raid`, or a GUID: what other programs take the \
             partition for";
    }
    .strict()
}

/// A label that two partitions have, or a disk that is named twice.
pub fn named_twice(disks: &[DiskPartitionsSpec]) -> Option<String> {
    let twice = |names: Vec<&str>| {
        let (_, name) = names
            .iter()
            .enumerate()
            .find(|(place, name)| names.iter().take(*place).any(|other| other == *name))?;
        Some(quoted(name))
    };
    let labels = disks.iter().flat_map(|disk| &disk.create).map(|part| part.label.as_str());
    match twice(labels.collect()) {
        Some(label) => Some(format!("two partitions have the label {label}; give each another one")),
        None => twice(disks.iter().map(|disk| disk.disk.as_str()).collect())
            .map(|disk| format!("the disk {disk} is there twice; put its partitions into one list")),
    }
}
