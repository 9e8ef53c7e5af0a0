//! Mounting, also of a disk that has not come yet or whose file system is not named.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use kelson_devices::identify;
use kelson_spec::disk::DiskName;
use kelson_sys::mountinfo;
use nix::errno::Errno;
use nix::mount as sys;
use nix::mount::MsFlags;

use crate::disk;
use crate::failure::at;
use crate::mount_options::MountOptions;

/// Interfaces that not every kernel has, each with its options, where programs look for it.
const INTERFACES: [(&str, &str, &str); 3] = [
    // Objects that programs of the kernel's BPF machine share.
    ("bpf", "/sys/fs/bpf", "mode=0700"),
    // The last words of a kernel that panicked, where the firmware keeps them.
    ("pstore", "/sys/fs/pstore", ""),
    // The boot entries of the firmware.
    ("efivarfs", "/sys/firmware/efi/efivars", ""),
];

/// Mounts those of [`INTERFACES`] that this kernel has and nobody has mounted.
pub fn mount_interfaces() -> Result<String, String> {
    let mounts = mountinfo::read().map_err(|error| format!("the table of mounts: {error}"))?;
    let (mut mounted, mut failures) = (Vec::new(), Vec::new());
    for (kind, target, data) in INTERFACES {
        // The kernel makes the folder where it has the interface.
        if !Path::new(target).is_dir() || mountinfo::topmost(&mounts, Path::new(target)).is_some() {
            continue;
        }
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        match sys::mount(Some(kind), target, Some(kind), flags, Some(data)) {
            Ok(()) => mounted.push(target),
            // Its file system was left out of this kernel.
            Err(Errno::ENODEV) => {}
            Err(errno) => failures.push(format!("{kind} on {target}: {}", errno.desc())),
        }
    }
    match failures.is_empty() {
        true if mounted.is_empty() => Ok("there is nothing to mount".to_owned()),
        true => Ok(mounted.join(", ")),
        false => Err(failures.join("; ")),
    }
}

/// Mounts what may have to be waited for and looked at.
pub fn mount(
    source: &str,
    target: &Path,
    fs_type: &str,
    options: &str,
    patience: Duration,
) -> Result<String, String> {
    let options = MountOptions::parse([options]);
    let device = if DiskName::parse(source).is_some() && !options.flags.contains(MsFlags::MS_BIND) {
        disk::find(source, patience)?.to_string_lossy().into_owned()
    } else {
        source.to_owned()
    };
    let fs_type = match fs_type {
        "" | "auto" if !options.flags.contains(MsFlags::MS_BIND) => type_of(Path::new(&device))?,
        given => given,
    };
    std::fs::create_dir_all(target).map_err(|error| at(target, error))?;
    match sys::mount(Some(device.as_str()), target, Some(fs_type), options.flags, Some(options.data.as_str()))
    {
        // A previous incarnation of PID 1 had it mounted, and did not see the answer.
        Err(Errno::EBUSY) if is_mounted(&device, target) => {}
        result => result.map_err(|errno| {
            format!("{device} on {}: {}{}", target.display(), errno.desc(), hint(errno, fs_type))
        })?,
    }
    if let Some(flags) = options.after_bind() {
        sys::mount(None::<&str>, target, None::<&str>, flags, None::<&str>)
            .map_err(|errno| at(target, format!("bound, but its options: {}", errno.desc())))?;
    }
    Ok(format!("{device} on {}", target.display()))
}

fn is_mounted(device: &str, target: &Path) -> bool {
    let mounts = mountinfo::read().unwrap_or_default();
    mountinfo::topmost(&mounts, target).is_some_and(|mount| mount.source == device)
}

pub(crate) fn hint(errno: Errno, fs_type: &str) -> String {
    match errno {
        Errno::ENODEV => format!(" (the kernel knows no file system \"{fs_type}\"; is its module named?)"),
        Errno::EINVAL => format!(" (not a {fs_type} file system, or an option that it does not know)"),
        _ => String::new(),
    }
}

/// Finds the type of the file system on a device.
fn type_of(device: &Path) -> Result<&'static str, String> {
    let file = File::open(device).map_err(|error| at(device, error))?;
    identify(&file)
        .map(|found| found.fs_type)
        .ok_or_else(|| at(device, "no file system that is known is on it"))
}

pub fn remount(target: &Path, options: &str) -> Result<String, String> {
    let options = MountOptions::parse([options]);
    let flags = options.flags | MsFlags::MS_REMOUNT;
    sys::mount(None::<&str>, target, None::<&str>, flags, Some(options.data.as_str()))
        .map_err(|errno| at(target, errno.desc()))?;
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_kernel_has_is_mounted_where_programs_look_for_it() {
        // In a mount namespace of this thread's own.
        let seen = std::thread::spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).ok()?;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            sys::mount(None::<&str>, "/", None::<&str>, private, None::<&str>).ok()?;
            let told = mount_interfaces();
            Some((told, std::fs::read("/proc/thread-self/mountinfo").unwrap()))
        });
        let Some((told, mounts)) = seen.join().unwrap() else {
            assert!(!nix::unistd::geteuid().is_root());
            return;
        };
        let mounts = mountinfo::parse(&mounts);
        for target in told.unwrap().split(", ").filter(|told| told.starts_with('/')) {
            let mount = mountinfo::topmost(&mounts, Path::new(target)).unwrap();
            let row = INTERFACES.iter().find(|(_, known, _)| *known == target).unwrap();
            assert!(mount.fs_type == row.0 && mount.options.iter().any(|word| word == "noexec"), "{mount:?}");
        }
    }

    #[test]
    fn a_disk_without_a_file_system_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        File::create(&disk).unwrap().set_len(1 << 20).unwrap();
        assert!(type_of(&disk).unwrap_err().contains("no file system that is known"));
    }
}
