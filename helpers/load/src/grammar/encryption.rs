//! `encryption` of the machine file.

use super::mapping::{Mapping, keys};
use super::mount::{disk, format_mistake};
use super::values::{choice, duration, name, number, path};
use kelson_spec::encryption::{EncryptionSpec, Tpm2Spec};
use kelson_spec::machine::Format;

/// A TPM has 24 registers.
const LAST_REGISTER: u8 = 23;

/// An encrypted disk.
pub fn encryption() -> Mapping<EncryptionSpec> {
    keys! {
        Mapping::new("encryption", EncryptionSpec::default);
        needed "name" name = name(), "name: NAME", "the name of the opened disk: mounts and swap find it at \
             `/dev/mapper/NAME`";
        needed "source" source = disk(), "source: DEVICE or SERIAL=NUMBER",
            "the encrypted disk by any of its [names](howto/disks.md#names)";
        means "tpm2" tpm2 = Mapping::codec(tpm2).optional(), "no key is in the TPM",
            "`{}`: the [TPM](howto/disks.md#a-key-in-the-tpm) of the machine has a key of the disk";
        means "keyFile" key_file = path().optional(), "without `tpm2` only an operator opens the disk, with \
             `kelsonctl disk unlock NAME`",
            "the file with the key. With `tpm2`: a second key, where the TPM does not give the first";
        means "recoveryFile" recovery_file = path().optional(), "none; `format` needs one",
            "a file that Kelson makes, with the recovery key of a disk that it encrypts; \
             `kelsonctl disk recovery NAME` shows and removes it";
        key "wait" wait = duration(),
            "how long the boot waits for the disk. One that comes later is opened then";
        means "format" format = choice([("ifBlank", Format::IfBlank)]), "a disk is never encrypted",
            "`ifBlank`: a disk that is [known to be blank](howto/disks.md#format-blank-disks) is encrypted with the key of \
             `tpm2` or `keyFile`, or with both, and a recovery key";
    }
    .check(|d, seen, disk| {
        if disk.format == Format::Never || !seen.is_right("format") {
            return;
        }
        let wrong = format_mistake(&disk.source).or_else(|| {
            let (key, ending) = match (&disk.key_file, &disk.recovery_file) {
                (None, _) if disk.tpm2.is_none() => ("keyFile", "key"),
                (_, None) => ("recoveryFile", "recovery"),
                _ => return None,
            };
            Some(format!(
                "a disk that is to be encrypted needs {key}; write such as {key}: /etc/kelson/{}.{ending}",
                disk.name
            ))
        });
        if let Some(wrong) = wrong {
            disk.format = Format::Never;
            seen.wrong_key(d, "format", wrong);
        }
    })
}

fn tpm2() -> Mapping<Tpm2Spec> {
    keys! {
        Mapping::new("tpm2", Tpm2Spec::default);
        key "pcrs" pcrs = number(0..=LAST_REGISTER).list("a list of registers"),
            "with `format`: the registers of the TPM (PCRs) that must be as they are now. An empty list: the TPM gives the \
             key to any system on this machine";
    }
    .strict()
}

/// A name that two disks of the list have.
pub fn name_of_two(disks: &[EncryptionSpec]) -> Option<String> {
    let twice = |(place, disk): (usize, &EncryptionSpec)| {
        disks.iter().take(place).any(|other| other.name == disk.name).then(|| disk.name.clone())
    };
    let name = disks.iter().enumerate().find_map(twice)?;
    Some(format!("two disks have the name {name}; give each another one"))
}
