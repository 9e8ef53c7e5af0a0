//! System calls straight into the kernel, for the child between clone and exec.
//!
//! The wrappers of libc are not fit for that place: they write `errno` where the waiting parent thread keeps its own,
//! and some of them (`setuid` and its kin) signal all threads of the parent. These return the error and touch nothing.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "system call numbers, arguments and results share one register width"
)]

use std::ffi::c_void;

/// The function that the child runs on its own stack. Never returns.
pub(crate) type ChildMain = extern "C" fn(*mut c_void) -> !;

/// `PR_SET_IO_FLUSHER` of the kernel's `prctl.h`: memory for this thread, and its children, without input and output.
pub const SET_IO_FLUSHER: libc::c_int = 57;

/// The result of a system call: its value, or errno.
pub(crate) type SysResult = Result<usize, i32>;

/// One system call with up to five arguments.
///
/// # Safety
/// The arguments must be what the call of that number may be given.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn syscall(number: i64, args: [usize; 5]) -> SysResult {
    let [a, b, c, d, e] = args;
    let result: isize;
    // SAFETY: the kernel keeps all registers but rax, rcx and r11; the caller vouches for the arguments.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    to_result(result)
}

#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn syscall(number: i64, args: [usize; 5]) -> SysResult {
    let [a, b, c, d, e] = args;
    let result: isize;
    // SAFETY: the kernel keeps all registers but x0; the caller vouches for the arguments.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number as isize,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            options(nostack),
        );
    }
    to_result(result)
}

/// `clone` or `clone3` with a stack of its own for the child, which runs `main(argument)` on it.
///
/// It must be written in assembly: after the call the child comes back with another stack pointer, so no compiled
/// frame may be left to return through. Returns the PID in the parent.
///
/// # Safety
/// The arguments must ask for a fresh stack (16-byte aligned top) that nothing else uses, and, as the child shares the
/// memory, for `CLONE_VFORK`.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn clone_onto(
    number: i64,
    args: [usize; 5],
    main: ChildMain,
    argument: *mut c_void,
) -> SysResult {
    let [a, b, c, d, e] = args;
    let result: isize;
    // SAFETY: r9 and r12 survive the call in both processes; the child never passes the `call`.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r9",
            "ud2",
            "2:",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            in("r9") main, in("r12") argument,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    to_result(result)
}

#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn clone_onto(
    number: i64,
    args: [usize; 5],
    main: ChildMain,
    argument: *mut c_void,
) -> SysResult {
    let [a, b, c, d, e] = args;
    let result: isize;
    // SAFETY: x9 and x10 survive the call in both processes; the child never passes the `blr`.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x10",
            "blr x9",
            "brk #1",
            "2:",
            in("x8") number as isize,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            in("x9") main, in("x10") argument,
        );
    }
    to_result(result)
}

/// The kernel answers with -4095 to -1 for an error.
fn to_result(value: isize) -> SysResult {
    match value {
        -4095..=-1 => Err(value.wrapping_neg() as i32),
        _ => Ok(value as usize),
    }
}

/// Ends the child at once, without any handler or destructor.
pub(crate) fn exit(status: i32) -> ! {
    loop {
        // SAFETY: exit_group takes a number and does not return.
        let _ = unsafe { syscall(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0]) };
    }
}
