//! What a source of the configuration gives, brought to its folder in the runtime folder.

use std::fs::create_dir_all;
use std::path::Path;
use std::time::Duration;

use kelson_devices::{NoDisk, find_disk, identify, modules};
use kelson_sources::{command_line, credentials, layer, smbios};
use kelson_spec::applied::TreeFile;
use kelson_spec::disk::NameKind;
use kelson_spec::sources::SourceKind;
use kelson_sys::text::first_of_many;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::failure::at;
use crate::mount;
use crate::news::{self, DEVICES};

/// Where the disk of a source is mounted, in a mount namespace of this process.
const MOUNT_POINT: &str = "mount";

/// Files, and where they came from; or why there are none.
type Found = Result<(Vec<TreeFile>, String), String>;

/// Replaces what the source gave before in its folder below `folder`.
///
/// # Errors
/// A sentence, when it gives something that is no configuration. Then the folder has nothing of it.
pub fn collect(kind: SourceKind, patience: Duration, folder: &Path) -> Result<String, String> {
    let layer = folder.join(kind.name());
    let found = match kind {
        SourceKind::Disk => disk(SourceKind::LABEL, patience, folder),
        SourceKind::Credentials => of_hypervisor(),
        SourceKind::CommandLine => of_command_line(),
    };
    let (files, origin) = match found {
        Ok(found) => found,
        Err(why) => {
            // The reason that is reported is the first one.
            let _ = layer::write(&layer, &[]);
            return Err(why);
        }
    };
    layer::write(&layer, &files).map_err(|error| format!("{origin}: {error}"))?;
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    Ok(match names.as_slice() {
        [] => origin,
        names => format!("{origin}: {}", first_of_many(names.iter(), ", ")),
    })
}

/// The files in the root of the disk with this label. Without such a disk there are none.
fn disk(label: &str, patience: Duration, folder: &Path) -> Found {
    let device = match news::wait(DEVICES, patience, || find_disk(NameKind::Label, label)) {
        Ok(device) => device,
        Err(error @ NoDisk::Missing { .. }) => {
            let text = format!("no disk LABEL={label} has come within {} s: {error}", patience.as_secs());
            return Ok((Vec::new(), text));
        }
        Err(error) => return Err(format!("disk LABEL={label}: {error}")),
    };
    let point = folder.join(MOUNT_POINT);
    create_dir_all(&point).map_err(|error| at(&point, error))?;
    mount_for_ourselves(&device, &point)?;
    let files = kelson_load::read_tree(&point).map_err(|why| format!("{}: {why}", device.display()))?;
    if files.is_empty() {
        let what = "it has no machine.yaml, no services/NAME.yaml and no groups/NAME.yaml";
        return Err(at(&device, what));
    }
    Ok((files, device.display().to_string()))
}

/// Mounts a disk where this process alone sees it, so that the mount ends with it. Nothing is written to the disk.
fn mount_for_ourselves(device: &Path, point: &Path) -> Result<(), String> {
    let disk = std::fs::File::open(device).map_err(|error| at(device, error))?;
    let found = identify(&disk).ok_or_else(|| at(device, "no file system that is known is on it"))?;
    let module = if found.fs_type == "iso9660" { "isofs" } else { found.fs_type };
    // A kernel may have it without a module; the mount says what is missing.
    let _ = modules::load(&[module.to_owned()]);
    let unseen = unshare(CloneFlags::CLONE_NEWNS).and_then(|()| {
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
    });
    unseen.map_err(|errno| format!("a mount namespace: {}", errno.desc()))?;
    // The journal stays as it is.
    let journal = match found.fs_type {
        "ext4" => ",noload",
        "xfs" => ",norecovery",
        _ => "",
    };
    let options = format!("ro,nosuid,nodev,noexec{journal}");
    mount::mount(&device.to_string_lossy(), point, found.fs_type, &options, Duration::ZERO).map(drop)
}

fn of_hypervisor() -> Found {
    // A kernel may have it without a module, and a machine no such device.
    let _ = modules::load(&["qemu_fw_cfg".to_owned()]);
    let collected = || {
        let table = credentials::smbios_table()?;
        let strings = smbios::strings(&table).into_iter();
        let mut found: Vec<_> = strings
            .filter_map(|text| credentials::from_smbios(text).transpose())
            .collect::<Result<_, _>>()?;
        found.extend(credentials::from_fw_cfg(Path::new(credentials::FW_CFG))?);
        credentials::files(found)
    };
    let files = collected().map_err(|error| error.to_string())?;
    let origin = if files.is_empty() { "there is no credential for Kelson" } else { "of the hypervisor" };
    Ok((files, origin.to_owned()))
}

fn of_command_line() -> Found {
    let path = Path::new(kelson_sys::command_line::PATH);
    let line = std::fs::read_to_string(path).map_err(|error| at(path, error))?;
    match command_line::file(&line).map_err(|error| error.to_string())? {
        Some(file) => Ok((vec![file], "words kelson.machine.KEY=VALUE".to_owned())),
        None => Ok((Vec::new(), "there is no word kelson.machine.KEY=VALUE".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_gives_nothing_leaves_nothing_of_an_earlier_boot() {
        let folder = tempfile::tempdir().unwrap();
        for kind in SourceKind::ALL {
            let layer = folder.path().join(kind.name());
            create_dir_all(&layer).unwrap();
            collect(kind, Duration::ZERO, folder.path()).unwrap();
            assert!(!layer.exists(), "{kind:?}");
        }
    }
}
