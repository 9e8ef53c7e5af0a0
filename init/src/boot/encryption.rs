//! The encrypted disks of the machine file, each opened by `kelson-task`.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::{CONTROL, Launcher};
use kelson_spec::encryption::{EncryptionSpec, LUKS, Tpm2Spec};
use kelson_spec::machine::Format;

use super::absent::{Absent, open_name};
use super::devices::{Found, LOOK, MountFailure, find};
use super::{Task, TaskFailure};
use crate::task::{self, Request};

/// How long it may take to open a disk: a key that can be guessed is stretched for seconds, on a slow processor longer.
const OPEN: Duration = Duration::from_secs(120);
/// How long it may take to encrypt one. Only its ends are written.
const ENCRYPT: Duration = Duration::from_secs(300);

/// Opens a disk in the boot; one that stays closed is kept for later.
pub fn open_task(launcher: Arc<dyn Launcher>, disk: EncryptionSpec, absent: Absent) -> Task {
    let name = open_name(&disk);
    let longest = disk.wait.saturating_add(LOOK).saturating_add(ENCRYPT).saturating_mul(2);
    let work = async move {
        if let Some(mount) = absent.holds_up_key(&disk) {
            absent.put_locked(disk, false);
            return Err(TaskFailure::from(format!(
                "its key is on {}, whose disk has not come",
                mount.display()
            )));
        }
        match open(&*launcher, &disk, disk.wait).await {
            Ok(done) => Ok(done),
            Err(MountFailure::NoDisk(error)) => {
                absent.put_locked(disk, false);
                Err(TaskFailure::from(format!("{error}; it is opened when it comes")))
            }
            Err(MountFailure::Mount(failure)) => {
                absent.put_locked(disk, true);
                Err(failure)
            }
        }
    };
    Task::new(name, work).within(longest)
}

/// Waits at most `wait` for the disk, and opens it with its own key. A blank one is encrypted first, if the file asks for it.
///
/// # Errors
/// When it has not come by then, or stays closed.
pub async fn open(
    launcher: &dyn Launcher,
    disk: &EncryptionSpec,
    wait: Duration,
) -> Result<String, MountFailure> {
    // In memory: the kernel's list of devices.
    if disk.device().exists() {
        return Ok("it was open already".to_owned());
    }
    let found = find(launcher, &disk.source, wait).await?;
    match found.fs_type.as_deref() {
        Some(LUKS) => {}
        None if disk.format == Format::IfBlank => {
            return Ok(task::run(launcher, &encrypt(disk), ENCRYPT).await?);
        }
        _ => return Err(MountFailure::Mount(not_encrypted(&found).into())),
    }
    let mut failures = Vec::new();
    for request in own_keys(disk, &found) {
        match task::run(launcher, &request, OPEN).await {
            Ok(done) if failures.is_empty() => return Ok(done),
            Ok(done) => return Ok(format!("{done}; {}", failures.join("; "))),
            Err(error) => failures.push(error.to_string()),
        }
    }
    if failures.is_empty() {
        failures.push(format!("{} has no key on this host", found.device));
    }
    let text = format!("{}; open it with `kelsonctl disk unlock {}`", failures.join("; "), disk.name);
    Err(MountFailure::Mount(text.into()))
}

/// One request for each key that the host has of the disk.
fn own_keys(disk: &EncryptionSpec, found: &Found) -> impl Iterator<Item = Request> {
    let name = || disk.name.clone();
    let device = || PathBuf::from(&found.device);
    let by_tpm = disk.tpm2.as_ref().map(|_| Request::OpenDiskByTpm { name: name(), device: device() });
    let by_file = disk.key_file.clone();
    let by_file = by_file.map(|key_file| Request::OpenDisk { name: name(), device: device(), key_file });
    by_tpm.into_iter().chain(by_file)
}

fn encrypt(disk: &EncryptionSpec) -> Request {
    let registers = |tpm: &Tpm2Spec| {
        let numbers: Vec<String> = tpm.pcrs.iter().map(u8::to_string).collect();
        numbers.join("+")
    };
    Request::EncryptDisk {
        name: disk.name.clone(),
        source: disk.source.clone(),
        recovery_file: disk.recovery_file.clone().unwrap_or_default(),
        registers: disk.tpm2.as_ref().map_or_else(|| "-".to_owned(), registers),
        key_file: disk.key_file.clone(),
    }
}

/// Opens the disk with the key that `key` gives.
///
/// # Errors
/// When it is not there, or stays closed.
pub async fn unlock(
    launcher: &dyn Launcher,
    disk: &EncryptionSpec,
    key: OwnedFd,
) -> Result<String, TaskFailure> {
    if disk.device().exists() {
        return Ok(format!("{} is open already", disk.name));
    }
    let found = match find(launcher, &disk.source, Duration::ZERO).await {
        Err(MountFailure::NoDisk(error)) => return Err(error.into()),
        Err(MountFailure::Mount(failure)) => return Err(failure),
        Ok(found) => found,
    };
    if found.fs_type.as_deref() != Some(LUKS) {
        return Err(not_encrypted(&found).into());
    }
    let request = Request::UnlockDisk { name: disk.name.clone(), device: found.device.into() };
    Ok(task::run_with(launcher, &request, vec![(CONTROL, key)], OPEN).await?)
}

fn not_encrypted(found: &Found) -> String {
    match &found.fs_type {
        Some(other) => format!("{}: a {other} is on it, and it is not encrypted", found.device),
        None => format!("{}: it is not encrypted", found.device),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::Scripted;

    fn disk(format: Format) -> EncryptionSpec {
        EncryptionSpec {
            name: "no-such-mapping".to_owned(),
            source: "SERIAL=S".to_owned(),
            key_file: Some("/k".into()),
            recovery_file: Some("/r".into()),
            format,
            ..EncryptionSpec::default()
        }
    }

    async fn asked(
        disk: &EncryptionSpec,
        found: &'static str,
        answer: &'static str,
    ) -> (Result<String, String>, Vec<String>) {
        let launcher =
            Scripted::new(move |line: &str| Some(if line.starts_with("identify") { found } else { answer }));
        let result = open(&launcher, disk, Duration::from_secs(1)).await;
        let result = result.map_err(|failure| match failure {
            MountFailure::NoDisk(error) => format!("no disk: {error}"),
            MountFailure::Mount(failure) => failure.message,
        });
        let lines = launcher.1.into_inner().unwrap();
        assert_eq!(lines[0], "identify SERIAL=S 1000");
        (result, lines[1..].to_vec())
    }

    #[tokio::test]
    async fn an_encrypted_disk_is_opened_and_only_a_blank_one_encrypted() {
        let opened = vec!["open-disk no-such-mapping /dev/vdb /k".to_owned()];
        let made = vec!["encrypt no-such-mapping SERIAL=S /r - /k".to_owned()];
        for (format, found, answer, result, lines) in [
            (Format::Never, "done crypto_LUKS /dev/vdb", "done open", Ok("open"), opened.clone()),
            (Format::IfBlank, "done crypto_LUKS /dev/vdb", "done open", Ok("open"), opened.clone()),
            (Format::IfBlank, "done - /dev/vdb", "done made", Ok("made"), made.clone()),
            (Format::IfBlank, "done - /dev/vdb", "failed it is not blank", Err("it is not blank"), made),
            (Format::Never, "done - /dev/vdb", "", Err("/dev/vdb: it is not encrypted"), vec![]),
            (
                Format::IfBlank,
                "done ext4 /dev/vdb",
                "",
                Err("/dev/vdb: a ext4 is on it, and it is not encrypted"),
                vec![],
            ),
            (Format::Never, "failed none", "", Err("no disk: none"), vec![]),
            (
                Format::Never,
                "done crypto_LUKS /dev/vdb",
                "failed /dev/vdb: no",
                Err("/dev/vdb: no; open it with `kelsonctl disk unlock no-such-mapping`"),
                opened,
            ),
        ] {
            let (got, asked) = asked(&disk(format), found, answer).await;
            assert_eq!((got.as_deref().map_err(String::as_str), asked), (result, lines));
        }
        let no_key = EncryptionSpec { key_file: None, ..disk(Format::Never) };
        let (result, lines) = asked(&no_key, "done crypto_LUKS /dev/vdb", "").await;
        let error = result.unwrap_err();
        assert!(
            error.starts_with("/dev/vdb has no key on this host; open it") && lines.is_empty(),
            "{error}"
        );
    }

    #[tokio::test]
    async fn the_tpm_is_asked_before_the_file_and_both_failures_are_reported() {
        let both = EncryptionSpec { tpm2: Some(Tpm2Spec { pcrs: vec![7, 11] }), ..disk(Format::IfBlank) };
        let (_, lines) = asked(&both, "done - /dev/vdb", "done").await;
        assert_eq!(lines, ["encrypt no-such-mapping SERIAL=S /r 7+11 /k"]);
        let tries = ["open-disk-by-tpm no-such-mapping /dev/vdb", "open-disk no-such-mapping /dev/vdb /k"];
        let (result, lines) = asked(&both, "done crypto_LUKS /dev/vdb", "done open").await;
        assert_eq!((result.as_deref(), &lines[..]), (Ok("open"), &tries.map(str::to_owned)[..1]));
        let (result, lines) = asked(&both, "done crypto_LUKS /dev/vdb", "failed no").await;
        assert_eq!(lines, tries);
        assert_eq!(result.unwrap_err(), "no; no; open it with `kelsonctl disk unlock no-such-mapping`");
        let launcher = Scripted::new(|line: &str| {
            Some(match line.split(' ').next() {
                Some("identify") => "done crypto_LUKS /dev/vdb",
                Some("open-disk-by-tpm") => "failed the TPM is lost",
                _ => "done open",
            })
        });
        let result = open(&launcher, &both, Duration::ZERO).await;
        assert_eq!(result.unwrap(), "open; the TPM is lost");
    }

    #[tokio::test]
    async fn the_key_of_an_operator_is_no_argument() {
        let launcher = Scripted::new(|line: &str| {
            Some(if line.starts_with("identify") { "done crypto_LUKS /dev/vdb" } else { "done open" })
        });
        let (reader, _writer) = nix::unistd::pipe().unwrap();
        assert_eq!(unlock(&launcher, &disk(Format::Never), reader).await, Ok("open".to_owned()));
        let lines = launcher.1.into_inner().unwrap();
        assert_eq!(lines, ["identify SERIAL=S 0", "unlock-disk no-such-mapping /dev/vdb"]);
    }
}
