//! The process's side: the calls themselves, straight and blocking.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::{Request, clock, identity, network, parameters, read_only};
use crate::devices;
use crate::modules::{Loaded, Modules};
use crate::mount_options::MountOptions;
use crate::superblock::identify;

/// Does what the arguments (after `argv[0]`) ask for and answers on standard output. Returns the exit status.
pub fn main(arguments: &[OsString]) -> u8 {
    if arguments == [OsString::from(WATCH_PATHS)] {
        return watch_paths();
    }
    let result = Request::from_arguments(arguments).and_then(|request| perform(&request));
    let (line, status) = match result {
        Ok(text) => (format!("done {}\n", text.replace('\n', " ")), 0),
        Err(text) => (format!("failed {}\n", text.replace('\n', " ")), 1),
    };
    // Whoever asked may have given up; there is nobody else to tell.
    let _ = std::io::stdout().write_all(line.as_bytes());
    let _ = std::io::stdout().flush();
    status
}

/// The one request that lasts: the helper of path conditions, which may hang on a disk in PID 1's stead.
const WATCH_PATHS: &str = "watch-paths";
/// Its socket to PID 1.
const SOCKET: i32 = 3;

fn watch_paths() -> u8 {
    // SAFETY: the first thing that this process does with a descriptor; PID 1 has put the socket there.
    let socket = unsafe { OwnedFd::from_raw_fd(SOCKET) };
    match kelson_conditions::path_helper(socket) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "kelson-task {WATCH_PATHS}: {error}");
            1
        }
    }
}

/// Makes the call.
///
/// # Errors
/// A sentence that says what failed and why.
pub fn perform(request: &Request) -> Result<String, String> {
    match request {
        Request::Mount { source, target, fs_type, options, patience } => {
            mount_one(source, target, fs_type, options, *patience)
        }
        Request::Identify { source, patience } => {
            let device = devices::find(source, *patience)?;
            let file = File::open(&device).map_err(|error| at(&device, error))?;
            Ok(format!("{} {}", identify(&file).map_or("-", |found| found.fs_type), device.display()))
        }
        Request::Remount { target, options } => remount(target, options),
        Request::Unmount { target } => {
            umount2(target, MntFlags::UMOUNT_NOFOLLOW).map_err(|errno| at(target, errno.desc()))?;
            Ok(String::new())
        }
        Request::MakeFolder { path, mode } => make_folder(path, *mode),
        Request::Check { device } => check(device),
        Request::Sync => {
            nix::unistd::sync();
            Ok(String::new())
        }
        Request::Stat { path } => match path.symlink_metadata() {
            Ok(_) => Ok("it exists".to_owned()),
            Err(error) => Err(at(path, error)),
        },
        Request::LoadModules { names } => load_modules(names),
        Request::SwapOff { device } => swap_off(device),
        Request::DetachLoop { device } => detach_loop(device),
        Request::LoadSeed { path } => load_seed(path),
        Request::SaveSeed { path } => save_seed(path).map(|()| String::new()),
        Request::SetParameters { settings } => parameters::set(settings),
        Request::SetHostName { name } => identity::set_host_name(name.as_deref()),
        Request::SetMachineId { transient } => identity::set_machine_id(transient),
        Request::SetClock => clock::set(),
        Request::SetUpLoopback => network::set_up_loopback(),
        Request::SetUpInterface { name, index, address, prefix, gateway } => {
            network::set_up(name, *index, *address, *prefix, *gateway)
        }
        Request::WriteResolver { resolver, servers } => network::write_resolver(servers, resolver),
        Request::ReadOnly { cgroups } => read_only::make_read_only(cgroups).map(|()| String::new()),
    }
}

fn make_folder(path: &Path, mode: u32) -> Result<String, String> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {
            Ok("it was there already".to_owned())
        }
        result => result.map(|()| String::new()).map_err(|error| at(path, error)),
    }
}

fn at(path: &Path, why: impl std::fmt::Display) -> String {
    format!("{}: {why}", path.display())
}

fn mount_one(
    source: &str,
    target: &Path,
    fs_type: &str,
    options: &str,
    patience: Duration,
) -> Result<String, String> {
    let options = MountOptions::parse([options]);
    let device = if devices::names_disk(source) && !options.flags.contains(MsFlags::MS_BIND) {
        devices::find(source, patience)?.to_string_lossy().into_owned()
    } else {
        source.to_owned()
    };
    let fs_type = match fs_type {
        "" | "auto" if !options.flags.contains(MsFlags::MS_BIND) => type_of(Path::new(&device))?,
        given => given,
    };
    std::fs::create_dir_all(target).map_err(|error| at(target, error))?;
    mount(Some(device.as_str()), target, Some(fs_type), options.flags, Some(options.data.as_str())).map_err(
        |errno| format!("{device} on {}: {}{}", target.display(), errno.desc(), mount_hint(errno, fs_type)),
    )?;
    if let Some(flags) = options.after_bind() {
        mount(None::<&str>, target, None::<&str>, flags, None::<&str>)
            .map_err(|errno| at(target, format!("bound, but its options: {}", errno.desc())))?;
    }
    Ok(format!("{device} on {}", target.display()))
}

fn mount_hint(errno: nix::errno::Errno, fs_type: &str) -> String {
    use nix::errno::Errno;
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

fn remount(target: &Path, options: &str) -> Result<String, String> {
    let options = MountOptions::parse([options]);
    let flags = options.flags | MsFlags::MS_REMOUNT;
    mount(None::<&str>, target, None::<&str>, flags, Some(options.data.as_str()))
        .map_err(|errno| at(target, errno.desc()))?;
    Ok(String::new())
}

/// Checks an ext4 file system that is not mounted, or mounted read-only.
fn check(device: &Path) -> Result<String, String> {
    const PROGRAMS: [&str; 3] = ["/sbin/fsck.ext4", "/sbin/e2fsck", "/usr/sbin/e2fsck"];
    let Some(program) = PROGRAMS.into_iter().find(|program| Path::new(program).exists()) else {
        return Ok("there is no e2fsck; not checked".to_owned());
    };
    let output = Command::new(program)
        .arg("-p")
        .arg(device)
        .output()
        .map_err(|error| at(Path::new(program), error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.lines().last().unwrap_or_default().trim();
    match output.status.code() {
        Some(0) => Ok(said.to_owned()),
        Some(1) => Ok(format!("errors were corrected: {said}")),
        Some(2 | 3) => Err(format!("errors were corrected, and {RESTART_NEEDED}: {said}")),
        _ => Err(format!("{program} -p {}: {}: {said}", device.display(), output.status)),
    }
}

/// What the answer to a check says when the kernel's view of the disk is no longer right.
pub const RESTART_NEEDED: &str = "the machine must start again before the disk is written";

fn load_modules(names: &[String]) -> Result<String, String> {
    let modules = Modules::of_running_kernel()?;
    let mut failures = Vec::new();
    let mut new = 0_usize;
    for name in names {
        match modules.load(name) {
            Ok(Loaded::New) => new = new.saturating_add(1),
            Ok(_) => {}
            Err(text) => failures.push(text),
        }
    }
    if failures.is_empty() { Ok(format!("{new} loaded")) } else { Err(failures.join("; ")) }
}

fn swap_off(device: &Path) -> Result<String, String> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(device.as_os_str().as_bytes()).map_err(|error| at(device, error))?;
    // SAFETY: a C string that lives over the call.
    let result = unsafe { libc::swapoff(path.as_ptr()) };
    nix::errno::Errno::result(result).map(|_| String::new()).map_err(|errno| at(device, errno.desc()))
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

/// As much as the kernel's generator holds.
const SEED_LENGTH: usize = 512;

/// Stirs the seed in without crediting it: it may have been copied with the disk. A new one is saved at once, so
/// that no seed is ever used twice, also after a power cut.
fn load_seed(path: &Path) -> Result<String, String> {
    let seed = read_seed(path)?;
    let urandom = Path::new("/dev/urandom");
    std::fs::OpenOptions::new()
        .write(true)
        .open(urandom)
        .and_then(|mut file| file.write_all(&seed))
        .map_err(|error| at(urandom, error))?;
    let found = if seed.is_empty() { "there was no seed" } else { "stirred in" };
    match write_seed(path, &seed) {
        Ok(()) => Ok(found.to_owned()),
        Err(text) => Err(format!("{found}, but no new one could be saved: {text}")),
    }
}

/// The seed on the disk; nothing where there is none.
fn read_seed(path: &Path) -> Result<Vec<u8>, String> {
    let mut seed = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(SEED_LENGTH as u64).read_to_end(&mut seed).map_err(|error| at(path, error))?,
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => return Err(at(path, error)),
    };
    Ok(seed)
}

/// The old seed and fresh bytes of the kernel, hashed together: what either holds is in each part of the new one, so a
/// kernel that has gathered nothing yet does not make the seed worse than it was.
fn next_seed(old: &[u8], fresh: &[u8]) -> Vec<u8> {
    let block = |number: u8| {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA512);
        let length = (old.len() as u64).to_le_bytes();
        [b"kelson random seed".as_slice(), &[number], &length, old, fresh]
            .into_iter()
            .for_each(|part| hash.update(part));
        hash.finish()
    };
    let blocks = (0..=u8::MAX).map(block).flat_map(|digest| digest.as_ref().to_vec());
    blocks.take(SEED_LENGTH).collect()
}

/// Random bytes as good as the kernel has them now. Early in a boot `/dev/urandom` would make a reader wait for seconds
/// until it has gathered some; what is saved here is mixed with later seeds and never credited.
fn fill_at_once(bytes: &mut [u8]) -> std::io::Result<()> {
    // SAFETY: the buffer is ours and as long as is said.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_INSECURE) };
    if usize::try_from(got).is_ok_and(|got| got == bytes.len()) {
        return Ok(());
    }
    // Kernels before 5.6 do not know the flag.
    File::open("/dev/urandom")?.read_exact(bytes)
}

fn save_seed(path: &Path) -> Result<(), String> {
    // One that cannot be read is replaced all the same.
    write_seed(path, &read_seed(path).unwrap_or_default())
}

fn write_seed(path: &Path, old: &[u8]) -> Result<(), String> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut fresh = [0; SEED_LENGTH];
    fill_at_once(&mut fresh).map_err(|error| at(Path::new("getrandom"), error))?;
    let seed = next_seed(old, &fresh);
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(|error| at(folder, error))?;
    let new = path.with_extension("new");
    let write = || {
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&seed)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        // Until its folder is on the disk a power cut would bring the old one back.
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| at(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kelson-task-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_seed_is_new_after_each_use() {
        let folder = scratch("seed");
        let path = folder.join("lib/random-seed");
        assert_eq!(load_seed(&path).unwrap(), "there was no seed");
        let first = std::fs::read(&path).unwrap();
        assert_eq!(first.len(), SEED_LENGTH);
        assert_eq!(load_seed(&path).unwrap(), "stirred in");
        assert_ne!(std::fs::read(&path).unwrap(), first);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_new_seed_holds_what_the_old_one_and_the_kernel_gave() {
        let (old, fresh) = ([1; SEED_LENGTH], [2; SEED_LENGTH]);
        let seed = next_seed(&old, &fresh);
        assert_eq!(seed.len(), SEED_LENGTH);
        assert_eq!(next_seed(&old, &fresh), seed);
        for other in [next_seed(&[], &fresh), next_seed(&old, &[3; SEED_LENGTH]), next_seed(&fresh, &old)] {
            let same = seed.iter().zip(&other).filter(|(one, other)| one == other).count();
            assert!(same < 32, "{same} bytes are the same");
        }
        let blocks: std::collections::HashSet<&[u8]> = seed.chunks(64).collect();
        assert_eq!(blocks.len(), SEED_LENGTH / 64);
    }

    #[test]
    fn a_disk_is_identified() {
        let folder = scratch("identify");
        let disk = folder.join("disk");
        let asked = || {
            let source = disk.display().to_string();
            perform(&Request::Identify { source, patience: Duration::ZERO })
        };
        File::create(&disk).unwrap().set_len(4 << 20).unwrap();
        assert_eq!(asked().unwrap(), format!("- {}", disk.display()));
        let made = Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4"]).arg(&disk).status().unwrap();
        assert!(made.success());
        assert_eq!(asked().unwrap(), format!("ext4 {}", disk.display()));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(asked().unwrap_err().contains("has come within 0 s"));
    }

    #[test]
    fn failures_name_the_path() {
        let error = perform(&Request::Stat { path: "/no/such".into() }).unwrap_err();
        assert!(error.starts_with("/no/such: "), "{error}");
        let error = perform(&Request::Unmount { target: "/no/such".into() }).unwrap_err();
        assert!(error.starts_with("/no/such: "), "{error}");
    }

    #[test]
    fn a_disk_without_a_file_system_is_said() {
        let folder = scratch("blank");
        let disk = folder.join("disk");
        File::create(&disk).unwrap().set_len(1 << 20).unwrap();
        assert!(type_of(&disk).unwrap_err().contains("no file system that is known"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_clean_and_a_broken_file_system_are_told_apart() {
        let folder = scratch("fsck");
        let disk = folder.join("disk");
        File::create(&disk).unwrap().set_len(4 << 20).unwrap();
        let made = Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4"]).arg(&disk).status().unwrap();
        assert!(made.success());
        assert!(check(&disk).unwrap().contains("clean"));
        std::fs::OpenOptions::new().write(true).open(&disk).unwrap().set_len(2 << 20).unwrap();
        assert!(check(&disk).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
