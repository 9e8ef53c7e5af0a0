//! What a source of the configuration gives, brought to its folder in the runtime folder.

use std::fs::{File, create_dir_all};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{panic, thread};

use kelson_devices::{NoDisk, find_disk, identify, modules};
use kelson_secrets::given::{Given, read_folder};
use kelson_secrets::held;
use kelson_sources::metadata::{self, MetadataError};
use kelson_sources::no_cloud::Seed;
use kelson_sources::{SourceError, command_line, credentials, layer, memory, no_cloud, smbios};
use kelson_spec::applied::TreeFile;
use kelson_spec::disk::NameKind;
use kelson_spec::sources::SourceKind;
use kelson_sys::text::first_of_many;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::failure::at;
use crate::mount;
use crate::news::{self, DEVICES};

/// The folder of a disk that holds secrets, each in a file of its name.
const SECRETS: &str = "secrets";
/// Where the disk of a source is mounted, in a mount namespace of the thread that reads it.
const MOUNT_POINT: &str = "mount";

/// What a source gave.
struct Found {
    files: Vec<TreeFile>,
    secrets: Vec<Given>,
    /// Where it came from, or why there is nothing.
    origin: String,
    /// Of one that belongs to an instance.
    instance: Option<String>,
}

impl Found {
    fn new(files: Vec<TreeFile>, origin: impl Into<String>) -> Found {
        Found { files, secrets: Vec::new(), origin: origin.into(), instance: None }
    }
}

/// Remembers what a source gave, or takes what is remembered.
///
/// # Errors
/// When the folder in which it is remembered cannot be read or written.
pub fn keep(kind: SourceKind, folder: &Path, state: &Path) -> Result<String, String> {
    memory::keep(kind, folder, state).map_err(|error| error.to_string())
}

/// Replaces what the source gave before in its folder below `folder`.
///
/// # Errors
/// A sentence, when it gives something that is no configuration. Then its folder is empty.
pub fn collect(
    kind: SourceKind,
    patience: Duration,
    folder: &Path,
    server: SocketAddr,
) -> Result<String, String> {
    let layer = folder.join(kind.name());
    let collected = match kind {
        SourceKind::Disk => of_disk(&[SourceKind::LABEL], patience, folder, read_disk),
        SourceKind::Credentials => of_hypervisor(),
        SourceKind::NoCloud => of_disk(&no_cloud::LABELS, patience, folder, read_seed),
        SourceKind::Metadata => match of_server(server, patience) {
            // What is remembered of it stays.
            Err(error @ MetadataError::Unreachable(..)) => return Err(error.to_string()),
            seed => seed.map(|seed| of_seed(seed, &server.to_string())).map_err(|error| error.to_string()),
        },
        SourceKind::CommandLine => of_command_line(),
    };
    let written = collected.and_then(|found| {
        let origin = found.origin.clone();
        let failed = |error: SourceError| format!("{origin}: {error}");
        layer::write(&layer, &found.files).map_err(failed)?;
        if let Some(instance) = &found.instance {
            memory::note_instance(&layer, instance).map_err(failed)?;
        }
        let secrets = found.secrets.iter().map(|secret| format!("secret {}", secret.name));
        let names: Vec<String> = found.files.into_iter().map(|file| file.name).chain(secrets).collect();
        held::hold(folder, kind, found.secrets).map_err(|error| failed(error.into()))?;
        Ok(match names.as_slice() {
            [] => found.origin,
            names => format!("{}: {}", found.origin, first_of_many(names.iter(), ", ")),
        })
    });
    if written.is_err() {
        // The reason that is reported is the first one. A folder says that the source has come.
        let _ = held::hold(folder, kind, Vec::new());
        let _ = layer::write(&layer, &[]);
        let _ = create_dir_all(&layer);
    }
    written
}

/// What `read` finds in the root of the disk with one of these labels. Without such a disk there is nothing.
fn of_disk(
    labels: &[&str],
    patience: Duration,
    folder: &Path,
    read: fn(&Path) -> Result<Found, String>,
) -> Result<Found, String> {
    let look = || {
        let found = labels.iter().map(|label| find_disk(NameKind::Label, label));
        // One that has a disk counts, and then one that has too many.
        let missing = Err(NoDisk::Missing { silent: Vec::new() });
        found
            .reduce(|one, other| if matches!(one, Err(NoDisk::Missing { .. })) { other } else { one })
            .unwrap_or(missing)
    };
    let names = labels.join(" or ");
    let device = match news::wait(DEVICES, patience, look) {
        Ok(device) => device,
        Err(error @ NoDisk::Missing { .. }) => {
            let text = format!("no disk LABEL={names} has come within {} s: {error}", patience.as_secs());
            return Ok(Found::new(Vec::new(), text));
        }
        Err(error) => return Err(format!("disk LABEL={names}: {error}")),
    };
    let point = folder.join(MOUNT_POINT).join(labels.join("-"));
    create_dir_all(&point).map_err(|error| at(&point, error))?;
    // Only a thread of its own sees the mount, which ends with it. This one could not come back from a mount namespace
    // while another thread of the process, such as that of the YAML parser, has not quite ended (EINVAL).
    let found = thread::scope(|scope| {
        let work = || {
            mount_for_this_thread(&device, &point)?;
            read(&point).map_err(|why| at(&device, why))
        };
        let reader = thread::Builder::new().spawn_scoped(scope, work);
        let reader = reader.map_err(|error| format!("a thread that reads the disk: {error}"))?;
        reader.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
    })?;
    let origin = match found.origin.as_str() {
        "" => device.display().to_string(),
        more => format!("{}, {more}", device.display()),
    };
    Ok(Found { origin, ..found })
}

fn read_disk(root: &Path) -> Result<Found, String> {
    let (files, secrets) = (kelson_load::read_tree(root)?, read_secrets(root)?);
    if files.is_empty() && secrets.is_empty() {
        return Err("it has no machine.yaml, services/NAME.yaml, groups/NAME.yaml or secrets/NAME".to_owned());
    }
    Ok(Found { secrets, ..Found::new(files, "") })
}

fn read_seed(root: &Path) -> Result<Found, String> {
    let seed = no_cloud::read(root).map_err(|error| error.to_string())?;
    Ok(Found { secrets: read_secrets(root)?, ..of_seed(seed, "") })
}

/// The secrets in the folder of a disk.
fn read_secrets(root: &Path) -> Result<Vec<Given>, String> {
    let folder = root.join(SECRETS);
    // A link could lead out of the disk.
    if folder.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        return Err(format!("{SECRETS} is no folder"));
    }
    read_folder(&folder).map_err(|error| error.to_string())
}

fn of_server(server: SocketAddr, patience: Duration) -> Result<Seed, MetadataError> {
    let now = Instant::now();
    metadata::read(server, now.checked_add(patience).unwrap_or(now))
}

/// `from`: where it is; empty, where that is known.
fn of_seed(seed: Seed, from: &str) -> Found {
    let comma = if from.is_empty() { "" } else { ", " };
    let mut origin = format!("{from}{comma}instance {}", seed.instance);
    if seed.of_cloud_init {
        origin += ", whose user-data is for cloud-init and ignored";
    }
    Found { instance: Some(seed.instance), ..Found::new(seed.files, origin) }
}

/// Mounts a disk where the calling thread alone sees it. Nothing is written to the disk.
fn mount_for_this_thread(device: &Path, point: &Path) -> Result<(), String> {
    let disk = File::open(device).map_err(|error| at(device, error))?;
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

fn of_hypervisor() -> Result<Found, String> {
    // A kernel may have it without a module, and a machine no such device.
    let _ = modules::load(&["qemu_fw_cfg".to_owned()]);
    let collected = || {
        let table = credentials::smbios_table()?;
        let strings = smbios::strings(&table).into_iter();
        let mut found: Vec<_> = strings
            .filter_map(|text| credentials::from_smbios(text).transpose())
            .collect::<Result<_, _>>()?;
        found.extend(credentials::from_fw_cfg(Path::new(credentials::FW_CFG))?);
        credentials::sort(found)
    };
    let (files, secrets) = collected().map_err(|error: SourceError| error.to_string())?;
    let is_empty = files.is_empty() && secrets.is_empty();
    let origin = if is_empty { "there is no credential for Kelson" } else { "of the hypervisor" };
    Ok(Found { secrets, ..Found::new(files, origin) })
}

fn of_command_line() -> Result<Found, String> {
    let path = Path::new(kelson_sys::command_line::PATH);
    let line = std::fs::read_to_string(path).map_err(|error| at(path, error))?;
    match command_line::file(&line).map_err(|error| error.to_string())? {
        Some(file) => Ok(Found::new(vec![file], "words kelson.machine.KEY=VALUE")),
        None => Ok(Found::new(Vec::new(), "there is no word kelson.machine.KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_gives_nothing_leaves_nothing_of_an_earlier_boot() {
        let folder = tempfile::tempdir().unwrap();
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for kind in SourceKind::ALL.into_iter().filter(|kind| !kind.is_late()) {
            let layer = folder.path().join(kind.name());
            create_dir_all(&layer).unwrap();
            collect(kind, Duration::ZERO, folder.path(), nobody).unwrap();
            assert!(!layer.exists(), "{kind:?}");
        }
        // What is remembered of a server that does not answer stays.
        let layer = folder.path().join("metadata");
        create_dir_all(&layer).unwrap();
        let error = collect(SourceKind::Metadata, Duration::ZERO, folder.path(), nobody).unwrap_err();
        assert!(error.contains(" does not answer: ") && layer.exists(), "{error}");
    }
}
