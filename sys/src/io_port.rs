//! The I/O ports of an x86 machine, without `/dev/port`, which not every kernel has.

use std::io;

/// Writes one byte to a port.
///
/// # Errors
/// The caller lacks `CAP_SYS_RAWIO`, the kernel is locked down, or the processor has no I/O ports.
#[cfg(target_arch = "x86_64")]
pub fn write(port: u16, byte: u8) -> io::Result<()> {
    // SAFETY: ioperm(2) takes three numbers. It lets this thread alone use this one port.
    let allowed = unsafe { libc::syscall(libc::SYS_ioperm, libc::c_long::from(port), 1, 1) };
    if allowed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel allows this thread the port, else the line above has returned. The instruction touches neither
    // memory nor flags. What the device does is the intent of the operator who named the port.
    unsafe {
        std::arch::asm!("out dx, al", in("dx") port, in("al") byte, options(nomem, nostack, preserves_flags));
    }
    Ok(())
}

/// As on x86, where there are ports.
///
/// # Errors
/// Always.
#[cfg(not(target_arch = "x86_64"))]
pub fn write(_port: u16, _byte: u8) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this processor has no I/O ports"))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::capability;

    /// Another thread, as capabilities are those of a thread. That a byte leaves is tested in a machine.
    #[test]
    fn a_thread_without_the_capability_is_refused() {
        let refused = std::thread::spawn(|| capability::drop_all().map(|()| write(0x80, 0)));
        let error = refused.join().unwrap().unwrap().unwrap_err();
        assert!(
            matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported),
            "{error}"
        );
    }
}
