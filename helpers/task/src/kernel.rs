//! The kernel that the machine executes in the place of the running one (kexec).

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::Path;

use kelson_sys::command_line;
use nix::errno::Errno;

use crate::failure::at;

/// `KEXEC_FILE_NO_INITRAMFS` of the kernel's `kexec.h`.
const NO_INITRAMFS: libc::c_ulong = 4;

/// Has the kernel read another one, with its initramfs, for reboot(2) to execute. An empty command line is that of the
/// running kernel.
///
/// # Errors
/// A sentence that says what failed and why.
pub fn load(kernel: &Path, command_line: &str, initramfs: Option<&Path>) -> Result<String, String> {
    let open = |path: &Path| File::open(path).map_err(|error| at(path, error));
    let image = open(kernel)?;
    let memory = initramfs.map(open).transpose()?;
    let line = match command_line {
        "" => std::fs::read_to_string(command_line::PATH)
            .map_err(|error| at(command_line::PATH.as_ref(), error))?,
        line => line.to_owned(),
    };
    let line = CString::new(line.trim()).map_err(|error| format!("the command line: {error}"))?;
    kexec_file_load(image.as_raw_fd(), memory.as_ref().map(|file| file.as_raw_fd()), &line)
        .map_err(|errno| at(kernel, explained(errno)))?;
    Ok(format!("{} is loaded, to be executed with: {}", kernel.display(), line.to_string_lossy()))
}

fn kexec_file_load(kernel: RawFd, initramfs: Option<RawFd>, command_line: &CString) -> nix::Result<()> {
    let flags = if initramfs.is_none() { NO_INITRAMFS } else { 0 };
    let length = command_line.as_bytes_with_nul().len();
    // SAFETY: descriptors that are open, or -1 with the flag for none, and a C string with its length that lives over the
    // call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_kexec_file_load,
            kernel,
            initramfs.unwrap_or(-1),
            length,
            command_line.as_ptr(),
            flags,
        )
    };
    Errno::result(result).map(|_| ())
}

fn explained(errno: Errno) -> String {
    match errno {
        Errno::ENOEXEC => "it is not the image of a kernel that this one can execute".to_owned(),
        Errno::ENOSYS => "this kernel cannot execute another one (CONFIG_KEXEC_FILE)".to_owned(),
        Errno::EPERM => "the kernel forbids it: by kernel.kexec_load_disabled or lockdown".to_owned(),
        Errno::EKEYREJECTED | Errno::ENODATA => "its signature is not one that the kernel trusts".to_owned(),
        Errno::EBUSY => "another program is loading a kernel; try again".to_owned(),
        errno => errno.desc().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_kernel_is_refused_by_its_path() {
        let error = load(Path::new("/no/such/vmlinuz"), "", None).unwrap_err();
        assert!(error.starts_with("/no/such/vmlinuz: No such file"), "{error}");
        let error = load(Path::new("/dev/null"), "quiet", Some(Path::new("/no/initramfs"))).unwrap_err();
        assert!(error.starts_with("/no/initramfs: No such file"), "{error}");
        // Whatever the kernel of the tests allows, this is no regular file.
        let error = load(Path::new("/dev/null"), "quiet", None).unwrap_err();
        assert!(error.starts_with("/dev/null: "), "{error}");
        let error = load(Path::new("/dev/null"), "a\0b", None).unwrap_err();
        assert!(error.starts_with("the command line: "), "{error}");
    }
}
