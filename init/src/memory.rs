//! PID 1's copy of itself in memory.
//!
//! A page of program text that was dropped is read again from the disk that the program came from. When that disk is
//! dead, a thread that touches the page sleeps for ever; when the root is to be unmounted, the running program holds
//! it. So PID 1 copies its file to a memfd, seals it, and executes the copy. Its personalities are spawned from the
//! same copy, so that a shutdown needs no disk any more either.

use std::ffi::CString;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Its name as `/proc/PID/exe` shows it: `/memfd:kelson (deleted)`.
const NAME: &str = "kelson";

/// `MFD_EXEC` of the kernel's `memfd.h`: this one is made to be executed.
const MFD_EXEC: libc::c_uint = 0x10;

/// The running program, as a descriptor for execveat(2) with an empty path.
///
/// # Errors
/// When `/proc` is not there or no descriptor is left.
pub fn exe_fd() -> std::io::Result<OwnedFd> {
    Ok(File::open("/proc/self/exe")?.into())
}

/// Whether this process already runs from its copy.
pub fn in_memory() -> bool {
    std::fs::read_link("/proc/self/exe").is_ok_and(|exe| is_copy(&exe))
}

/// Whether this is the kernel's name for the copy, as links and mappings of `/proc` have it.
pub fn is_copy(exe: &Path) -> bool {
    let name = exe.to_str().and_then(|exe| exe.strip_prefix("/memfd:"));
    name.is_some_and(|name| name.strip_suffix(" (deleted)").unwrap_or(name) == NAME)
}

/// Goes on as a copy in memory, with the same arguments and environment. Does nothing if this is the copy already.
///
/// # Errors
/// Returns only if there is no copy to go on as; PID 1 can go on from its file then, with the weakness described above.
pub fn move_into(arguments: &[CString], environment: &[CString]) -> std::io::Result<()> {
    if in_memory() {
        return Ok(());
    }
    let copy = copy_of(&mut File::open("/proc/self/exe")?)?;
    match nix::unistd::execveat(copy.as_fd(), c"", arguments, environment, AtFlags::AT_EMPTY_PATH) {
        Ok(never) => match never {},
        Err(errno) => Err(errno.into()),
    }
}

/// A sealed copy of a file that may be executed: nobody can change it, not even root.
fn copy_of(file: &mut File) -> std::io::Result<OwnedFd> {
    let mut copy = File::from(executable_memfd()?);
    file.seek(SeekFrom::Start(0))?;
    std::io::copy(file, &mut copy)?;
    seal(&copy.into())
}

/// Nobody can change it any more, and it can be executed.
pub fn seal(copy: &OwnedFd) -> std::io::Result<OwnedFd> {
    let seals =
        SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SEAL;
    fcntl(copy, FcntlArg::F_ADD_SEALS(seals))?;
    // execve refuses a file that somebody has open for writing (ETXTBSY), and this descriptor is.
    use std::os::fd::AsRawFd;
    Ok(File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?.into())
}

/// Memory for a program, called as PID 1's own copy is.
pub fn executable_memfd() -> nix::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Since Linux 6.3 a host may forbid to execute a memfd that does not ask for it; older kernels refuse the flag.
    match memfd_create(NAME, flags | MFdFlags::from_bits_retain(MFD_EXEC)) {
        Err(Errno::EINVAL) => memfd_create(NAME, flags),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::PathBuf;

    #[test]
    fn a_copy_is_known_by_its_name() {
        assert!(is_copy(&PathBuf::from("/memfd:kelson (deleted)")));
        assert!(!is_copy(&PathBuf::from("/sbin/init")));
        assert!(!is_copy(&PathBuf::from("/memfd:other (deleted)")));
        assert!(!is_copy(&PathBuf::from("/memfd:kelson-crashes (deleted)")));
        assert!(!in_memory());
    }

    #[test]
    fn a_copy_is_whole_and_sealed_and_runs() {
        let mut original = File::open("/bin/true").unwrap();
        let copy = copy_of(&mut original).unwrap();
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
        assert_eq!(std::fs::read(&path).unwrap(), std::fs::read("/bin/true").unwrap());
        let refused =
            std::fs::OpenOptions::new().write(true).open(&path).and_then(|mut file| file.write(b"x"));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(std::process::Command::new(&path).status().unwrap().success());
    }
}
