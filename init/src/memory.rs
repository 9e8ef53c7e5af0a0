//! PID 1 runs from memory.
//!
//! A page of program text that was dropped is read again from the disk that the program came from. When that disk is
//! dead, a thread that touches the page sleeps for ever; when the root is to be unmounted, the running program holds
//! it. So PID 1 copies its file to a memfd, seals it, and executes the copy. Its personalities are spawned from the
//! same copy, so that a shutdown needs no disk any more either.
//!
//! A file of a tmpfs or of the kernel's rootfs lies in memory already, and gets no copy: while it runs, the kernel lets
//! nobody write to it.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};

/// The copy's name as `/proc/PID/exe` shows it: `/memfd:kelson (deleted)`.
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

/// What statfs(2) calls the kernel's own rootfs, where that is no tmpfs.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

/// Whether the program's file lies in memory: a copy of it (the kernel has memfds on a tmpfs), or the file itself.
pub fn in_memory() -> bool {
    has_files_in_memory("/proc/self/exe")
}

/// Whether the files of this file system are in memory and nowhere else.
pub fn has_files_in_memory(path: &str) -> bool {
    statfs(path).is_ok_and(|found| [RAMFS_MAGIC, TMPFS_MAGIC].contains(&found.filesystem_type()))
}

/// Goes on as a copy in memory, with the same arguments and environment.
///
/// # Errors
/// Returns only if there is no copy to go on as; PID 1 can go on from its file then, with the weakness described above.
pub fn move_into(arguments: &[CString], environment: &[CString]) -> std::io::Result<Infallible> {
    let copy = copy_of(&mut File::open("/proc/self/exe")?)?;
    match nix::unistd::execveat(copy.as_fd(), c"", arguments, environment, AtFlags::AT_EMPTY_PATH) {
        Ok(never) => Ok(never),
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

    #[test]
    fn files_in_memory_are_known_by_their_file_system() {
        let memory = executable_memfd().unwrap();
        use std::os::fd::AsRawFd;
        let memory = format!("/proc/self/fd/{}", memory.as_raw_fd());
        assert!(has_files_in_memory(&memory) && has_files_in_memory("/dev/shm"));
        assert!(!has_files_in_memory("/proc") && !has_files_in_memory("/nowhere"));
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
