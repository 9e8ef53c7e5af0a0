//! `mounts` of the machine file.

use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::values::{any_word, boolean, choice, duration, path, text, word};
use crate::decode::quoted;
use kelson_spec::disk::{DiskName, NameKind};
use kelson_spec::machine::{Format, MountSpec};
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
        means "format" format if Disks = choice([("ifBlank", Format::IfBlank)]), "a disk is never formatted",
            "`ifBlank`: a disk that is [known to be blank](howto/disks.md#format-blank-disks) gets a file system of \
             `type`: `ext4`, `xfs` or `vfat`";
        key "grow" grow if Disks = boolean(),
            "`true`: the file system (`ext4` or `xfs`) [grows](howto/disks.md#growing-disks) to the size of its disk, after \
             the partition if it is the last one";
    }
    .check(|d, seen, mount| {
        if mount.grow && (DiskName::parse(&mount.source).is_none() || !Format::GROWING.contains(&mount.fs_type.as_str())) {
            mount.grow = false;
            let all = Format::GROWING.join(" or ");
            seen.wrong_key(d, "grow", format_args!("only an {all} on a disk grows; leave grow out"));
        }
        if mount.format == Format::Never || !seen.is_right("format") {
            return;
        }
        let wrong = format_mistake(&mount.source).or_else(|| {
            let all = Format::TYPES.join(", ");
            (!Format::TYPES.contains(&mount.fs_type.as_str()))
                .then(|| format!("Kelson makes no {}; write a type of {all}", quoted(&mount.fs_type)))
        });
        if let Some(wrong) = wrong {
            mount.format = Format::Never;
            seen.wrong_key(d, "format", wrong);
        }
    })
}

/// Why the disk of this source cannot be formatted when it is blank, if it cannot.
pub fn format_mistake(source: &str) -> Option<String> {
    match DiskName::parse(source) {
        None => Some("source is no disk; leave format out".to_owned()),
        Some(DiskName::Named(kind, _)) if !kind.is_of_blank_disk() => Some(format!(
            "a blank disk has no {}; name it in source by SERIAL=, ID=, PARTLABEL=, PARTUUID= or its path",
            kind.word()
        )),
        Some(_) => None,
    }
}

/// The name of a disk.
pub fn disk() -> Codec<String> {
    let form = "^(/dev/|LABEL=|UUID=|PARTLABEL=|PARTUUID=|SERIAL=|ID=)[^=]";
    word("name of a disk", form, "SERIAL=WD-123").but(|source| {
        let is_disk = match DiskName::parse(source) {
            Some(DiskName::Named(_, name)) => !name.is_empty(),
            Some(DiskName::Path(path)) => path.file_name().is_some(),
            None => false,
        };
        (!is_disk).then(|| format!("{} is no name of a disk; write such as SERIAL=WD-123", quoted(source)))
    })
}

/// The name of a disk, or another source.
pub fn source() -> Codec<String> {
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
