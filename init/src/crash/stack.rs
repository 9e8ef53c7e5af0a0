//! The stack on which a thread's fault is handled.

/// A handler runs on a stack of its own, since a stack that is full may be the fault.
const STACK: usize = 64 << 10;

/// Gives the calling thread a stack for its faults. It is never given back: threads of PID 1 are few and stay.
///
/// # Errors
/// When there is no memory for it.
pub fn alternate_stack() -> std::io::Result<()> {
    // SAFETY: a new mapping, at a place that the kernel chooses.
    let place = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
            -1,
            0,
        )
    };
    if place == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    let stack = libc::stack_t { ss_sp: place, ss_flags: 0, ss_size: STACK };
    // SAFETY: the memory is the stack's alone and stays.
    if unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}
