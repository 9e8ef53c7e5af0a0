//! Mounting, also of a disk that has not come yet or whose file system is not named.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use kelson_helper::task::names_disk;
use nix::errno::Errno;
use nix::mount as sys;
use nix::mount::MsFlags;

use crate::disk;
use crate::failure::at;
use crate::mount_options::MountOptions;
use crate::superblock::identify;

/// Mounts what may have to be waited for and looked at.
pub fn mount(
    source: &str,
    target: &Path,
    fs_type: &str,
    options: &str,
    patience: Duration,
) -> Result<String, String> {
    let options = MountOptions::parse([options]);
    let device = if names_disk(source) && !options.flags.contains(MsFlags::MS_BIND) {
        disk::find(source, patience)?.to_string_lossy().into_owned()
    } else {
        source.to_owned()
    };
    let fs_type = match fs_type {
        "" | "auto" if !options.flags.contains(MsFlags::MS_BIND) => type_of(Path::new(&device))?,
        given => given,
    };
    std::fs::create_dir_all(target).map_err(|error| at(target, error))?;
    sys::mount(Some(device.as_str()), target, Some(fs_type), options.flags, Some(options.data.as_str()))
        .map_err(|errno| {
            format!("{device} on {}: {}{}", target.display(), errno.desc(), hint(errno, fs_type))
        })?;
    if let Some(flags) = options.after_bind() {
        sys::mount(None::<&str>, target, None::<&str>, flags, None::<&str>)
            .map_err(|errno| at(target, format!("bound, but its options: {}", errno.desc())))?;
    }
    Ok(format!("{device} on {}", target.display()))
}

fn hint(errno: Errno, fs_type: &str) -> String {
    match errno {
        Errno::ENODEV => format!(" (the kernel knows no file system \"{fs_type}\"; is its module named?)"),
        Errno::EINVAL => format!(" (not a {fs_type} file system, or an option that it does not know)"),
        _ => String::new(),
    }
}

/// What file system is on a device.
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
    fn a_disk_without_a_file_system_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        File::create(&disk).unwrap().set_len(1 << 20).unwrap();
        assert!(type_of(&disk).unwrap_err().contains("no file system that is known"));
    }
}
