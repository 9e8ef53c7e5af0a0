//! `mounts` of the machine file.

use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::values::{any_word, duration, path, text};
use crate::decode::quoted;
use kelson_spec::disk::{DiskName, NameKind};
use kelson_spec::machine::MountSpec;
use kelson_spec::near::near;

/// A file system and the place where it is mounted.
pub fn mount() -> Mapping<MountSpec> {
    keys! {
        Mapping::new("mount", MountSpec::default);
        needed "source" source = source(), "source: DEVICE or LABEL=NAME",
            "a device path; `LABEL=…` or `UUID=…` of the file system, `PARTLABEL=…` or `PARTUUID=…` of the partition, \
             `SERIAL=…` or `ID=…` of the disk ([Names of disks](howto/disks.md#names)); or another source that the \
             file system accepts (`tmpfs`)";
        needed "target" target = path(), "target: PATH",
            "the mount point, which Kelson creates if it does not exist. `/` changes the options of the \
             root file system";
        needed "type" fs_type = any_word("text", "ext4"), "type: ext4", "the type of the file system: \
             `ext4`, `tmpfs`, … or `auto`";
        key "options" options = text().list("a list of texts"),
            "the options of mount(8) that belong to the kernel, and the options of the file system";
        key "wait" wait = duration(),
            "how long the boot waits for the disk. One that comes later [is mounted then](howto/disks.md#late-disks)";
    }
}

fn source() -> Codec<String> {
    any_word("text", "LABEL=STATE").but(|source| match DiskName::parse(source) {
        Some(DiskName::Named(kind, "")) => {
            Some(format!("there is nothing after {}=; write a name", kind.word()))
        }
        Some(_) => None,
        None => {
            let words = NameKind::ALL.map(NameKind::word);
            let (word, _) = source.split_once('=')?;
            let meant = near(word, words)?;
            Some(format!("{} is no name of a disk; did you mean {meant}=?", quoted(source)))
        }
    })
}
