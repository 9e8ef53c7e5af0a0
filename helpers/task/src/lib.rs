//! `kelson-task`: one call that may hang, made by a process of its own in PID 1's stead.
//!
//! A dead disk puts a process that touches it into a sleep that no signal ends: then it is this process that
//! sleeps. [`main`] is the process, which makes one call and ends; [`perform`] is the call, which our own
//! initramfs makes too.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod blank;
mod check;
mod clock;
mod container_network;
mod device_access;
mod directories;
mod disk;
mod encryption;
mod failure;
mod file_view;
mod firewall;
mod format;
mod free_space;
mod growth;
mod hand_over;
mod held_disks;
mod holders;
mod identity;
mod input;
mod ipc;
mod kernel;
mod known_partition;
mod mapping;
mod mount;
mod mount_options;
mod namespaces;
mod network;
mod news;
mod open_file;
mod parameters;
mod partition_growth;
mod partition_plan;
mod partitions;
mod pid_file;
mod plugin;
mod program;
mod read_only;
mod recovery_key;
mod secrets;
mod seed;
mod sockets;
mod sources;
mod swap;
mod templates;
mod terminal;
mod volumes;

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read as _, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use kelson_devices::{identify, modules};
use kelson_helper::CONTROL;
use kelson_helper::answer::frame;
use kelson_helper::task::{NAME, Request, WATCH_PATHS, write_answer};
use kelson_spec::features::{Feature, MissingFeature, OWN};
use kelson_spec::service::Volume;
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};

use failure::at;
pub use mount_options::MountOptions;

/// Does what the arguments (after `argv[0]`) ask for and answers on standard output. Returns the exit status.
pub fn main(arguments: &[OsString]) -> u8 {
    if arguments == [OsString::from(WATCH_PATHS)] {
        return watch_paths();
    }
    let request = Request::from_arguments(arguments);
    if let Ok(Request::Volumes { words }) = &request
        && let Some(volumes) = held_disks::asked(words)
    {
        return hold(&volumes);
    }
    answer(&request.and_then(|request| perform(&request)))
}

fn answer(result: &Result<String, String>) -> u8 {
    // The process that asked may have given up; there is nobody else to report to.
    let _ = std::io::stdout().write_all(&frame(&write_answer(result)));
    let _ = std::io::stdout().flush();
    result.is_err().into()
}

/// Mounts disks, and keeps them mounted for as long as PID 1 wants it.
fn hold(volumes: &[Volume]) -> u8 {
    let mut control = File::from(control());
    let (result, held) = match held_disks::mount(volumes) {
        Ok((text, held)) => (Ok(text), held),
        Err(text) => (Err(text), Vec::new()),
    };
    let status = answer(&result);
    if status == 0 {
        // PID 1 writes nothing: this is at its end when it lets go, or is another program.
        let _ = control.read(&mut [0]);
    }
    // Before the end of the output, which says that they are free.
    drop(held);
    status
}

/// The one call that lasts: the helper of path conditions, which may hang on a disk in PID 1's stead.
fn watch_paths() -> u8 {
    match kelson_conditions::path_helper(control()) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{NAME} {WATCH_PATHS}: {error}");
            1
        }
    }
}

/// The descriptor that PID 1 has put there for some calls.
fn control() -> OwnedFd {
    // SAFETY: called once, before this process opens anything; it closes it with an error where there is none.
    unsafe { OwnedFd::from_raw_fd(CONTROL) }
}

/// Makes the call.
///
/// # Errors
/// A sentence that says what failed and why.
pub fn perform(request: &Request) -> Result<String, String> {
    match request {
        Request::Mount { source, target, fs_type, options, patience } => {
            mount::mount(source, target, fs_type, options, *patience)
        }
        Request::Identify { source, patience } => {
            let (device, file) = disk::open(source, *patience)?;
            Ok(format!("{} {}", identify(&file).map_or("-", |found| found.fs_type), device.display()))
        }
        Request::Remount { target, options } => mount::remount(target, options),
        Request::Unmount { target } => {
            umount2(target, MntFlags::UMOUNT_NOFOLLOW).map_err(|errno| {
                let is_busy = errno == Errno::EBUSY && OWN.has(Feature::Disks);
                let holders = if is_busy { holders::holders(target) } else { Vec::new() };
                match holders.is_empty() {
                    true => at(target, errno.desc()),
                    false => at(target, format!("{}: {}", errno.desc(), holders.join("; "))),
                }
            })?;
            Ok(String::new())
        }
        Request::MountInterfaces => mount::mount_interfaces(),
        Request::MakeFolder { path, mode } => make_folder(path, mode.0),
        Request::Check { device } => with(Feature::Disks, || check::check(device)),
        Request::Format { source, fs_type } => with(Feature::Disks, || format::format(source, fs_type)),
        Request::MakePartitions { source, partitions } => {
            with(Feature::Disks, || partitions::make(source, partitions))
        }
        Request::GrowPartition { device } => with(Feature::Disks, || partition_growth::grow(device)),
        Request::GrowFileSystem { device, target, fs_type } => {
            with(Feature::Disks, || growth::grow(device, target, fs_type))
        }
        Request::OpenDisk { name, device, key_file } => {
            with(Feature::Disks, || encryption::open(name, device, key_file))
        }
        Request::UnlockDisk { name, device } => {
            with(Feature::Disks, || encryption::unlock(name, device, control()))
        }
        Request::OpenDiskByTpm { name, device } => {
            with(Feature::Disks, || encryption::open_by_tpm(name, device))
        }
        Request::EncryptDisk { name, source, recovery_file, registers, key_file } => {
            with(Feature::Disks, || {
                let registers = (registers != "-").then_some(registers.as_str());
                let keys = encryption::Keys { recovery_file, registers, file: key_file.as_deref() };
                encryption::encrypt(name, source, &keys)
            })
        }
        Request::RecoveryKey { file } => with(Feature::Disks, || recovery_key::read(file)),
        Request::ForgetRecoveryKey { file } => with(Feature::Disks, || recovery_key::forget(file)),
        Request::RemoveMapping { name } => with(Feature::Disks, || mapping::remove(name)),
        Request::Sync => {
            nix::unistd::sync();
            Ok(String::new())
        }
        Request::CopyFile { path } => copy_file(path),
        Request::Stat { path } => match path.symlink_metadata() {
            Ok(_) => Ok("it exists".to_owned()),
            Err(error) => Err(at(path, error)),
        },
        Request::ReadPidFile { path, patience } => {
            with(Feature::Units, || pid_file::read(path, *patience).map(|pid| pid.to_string()))
        }
        Request::CollectSource { kind, patience, folder, server } => {
            with(Feature::Sources, || sources::collect(*kind, *patience, folder, *server))
        }
        Request::KeepSource { kind, folder, state } => {
            with(Feature::Sources, || sources::keep(*kind, folder, state))
        }
        Request::Secrets { state, runtime, words } => {
            with(Feature::Secrets, || secrets::perform(state, runtime, words, control))
        }
        Request::ContainerNetwork { namespace, words } => {
            with(Feature::Containerd, || container_network::perform(namespace, words))
        }
        Request::MakeNamespaces { rules } => with(Feature::Units, || namespaces::make(rules, &control())),
        Request::RemoveIpc { uid } => with(Feature::Units, || ipc::remove(*uid)),
        Request::Directories { words } => with(Feature::Units, || directories::perform(words)),
        Request::Sockets { words } => with(Feature::Units, || sockets::perform(words, control)),
        Request::Input { words } => with(Feature::Units, || input::perform(words, control)),
        Request::Volumes { words } => with(Feature::Volumes, || volumes::perform(words, control)),
        Request::Templates { words } => with(Feature::Fleet, || templates::perform(words)),
        Request::LoadModules { names } => modules::load(names),
        Request::LoadDrivers => with(Feature::Devices, kelson_devices::load_drivers),
        Request::SwapOn { device, priority } => with(Feature::Disks, || swap::enable(device, *priority)),
        Request::MakeZram { percent, algorithm } => {
            with(Feature::Disks, || swap::make_zram(*percent, algorithm.as_deref()))
        }
        Request::SwapOff { device } => swap::disable(device),
        Request::DetachLoop { device } => detach_loop(device),
        Request::LoadSeed { path } => seed::load(path),
        Request::SaveSeed { path } => seed::save(path),
        Request::Reseed => seed::reseed(control()),
        Request::SetParameters { settings } => parameters::set(settings),
        Request::SetHostName { name, hosts } => identity::set_host_name(name.as_deref(), hosts),
        Request::SetMachineId { transient } => identity::set_machine_id(transient),
        Request::RenewMachineId { transient } => identity::renew_machine_id(transient),
        Request::SetClock { saved } => clock::set(saved),
        Request::SaveClock { saved } => clock::save(saved),
        Request::LoadKernel { kernel, command_line, initramfs } => {
            with(Feature::Kexec, || kernel::load(kernel, command_line, initramfs.as_deref()))
        }
        Request::SetUpLoopback => network::set_up_loopback(),
        Request::SetUpInterfaces { patience, interfaces } => network::set_up(interfaces, *patience),
        Request::LoadFirewall { file } => with(Feature::Net, || firewall::load(file)),
        Request::WriteResolver { resolver, servers } => network::write_resolver(servers, resolver),
        Request::ReadOnly { cgroups } => read_only::make_read_only(cgroups).map(|()| String::new()),
    }
}

/// Does work that a build without this feature leaves out.
#[inline(always)]
fn with(feature: Feature, work: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
    if OWN.has(feature) { work() } else { Err(MissingFeature(feature).to_string()) }
}

fn make_folder(path: &Path, mode: u32) -> Result<String, String> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {
            Ok("it was there already".to_owned())
        }
        result => result.map(|()| String::new()).map_err(|error| at(path, error)),
    }
}

/// No program of ours is larger, built with all of its debugging information.
const LARGEST: u64 = 1 << 30;

fn copy_file(path: &Path) -> Result<String, String> {
    let mut copy = File::from(control());
    let file = File::open(path).map_err(|error| at(path, error))?;
    let copied = std::io::copy(&mut file.take(LARGEST), &mut copy).map_err(|error| at(path, error))?;
    Ok(format!("{copied} bytes"))
}

/// `LOOP_CLR_FD` of the kernel's `loop.h`.
const LOOP_CLR_FD: libc::Ioctl = 0x4C01;

fn detach_loop(device: &Path) -> Result<String, String> {
    let file = File::open(device).map_err(|error| at(device, error))?;
    // SAFETY: the descriptor is open, and this call takes no argument.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), LOOP_CLR_FD, 0) };
    match nix::errno::Errno::result(result) {
        // ENXIO: it has let go by itself.
        Ok(_) | Err(nix::errno::Errno::ENXIO) => Ok(String::new()),
        Err(errno) => Err(at(device, errno.desc())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn a_disk_is_identified() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        let asked = || {
            let source = disk.display().to_string();
            perform(&Request::Identify { source, patience: Duration::ZERO })
        };
        File::create(&disk).unwrap().set_len(4 << 20).unwrap();
        assert_eq!(asked().unwrap(), format!("- {}", disk.display()));
        let made = Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4"]).arg(&disk).status().unwrap();
        assert!(made.success());
        assert_eq!(asked().unwrap(), format!("ext4 {}", disk.display()));
        folder.close().unwrap();
        assert!(asked().unwrap_err().contains("has come within 0 s"));
    }

    #[test]
    fn failures_name_the_path() {
        let error = perform(&Request::Stat { path: "/no/such".into() }).unwrap_err();
        assert!(error.starts_with("/no/such: "), "{error}");
        let error = perform(&Request::Unmount { target: "/no/such".into() }).unwrap_err();
        assert!(error.starts_with("/no/such: "), "{error}");
    }
}
