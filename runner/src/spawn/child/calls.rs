//! Raw calls of the child, and their arguments as the registers hold them. The rule of [`child`](super) holds here too.

use std::os::fd::RawFd;

use crate::spawn::sys::{SysResult, syscall};

/// A call whose arguments are numbers, or pointers that live in the plan.
pub fn call(number: i64, args: [usize; 5]) -> SysResult {
    // SAFETY: pointers among the arguments point into the plan, which outlives the child's steps.
    unsafe { syscall(number, args) }
}

pub fn prctl(option: i32, a: usize, b: usize) -> SysResult {
    call(libc::SYS_prctl, [signed(option), a, b, 0, 0])
}

/// A small number as the register holds it, its sign kept.
#[allow(clippy::cast_sign_loss, reason = "the register holds the two's complement")]
pub fn signed(value: i32) -> usize {
    value as isize as usize
}

/// An `unsigned int` as the register holds it.
pub fn wide(value: u32) -> usize {
    value as usize
}

#[allow(clippy::cast_possible_truncation, reason = "the kernel returns descriptors as int")]
#[allow(clippy::cast_possible_wrap, reason = "the kernel returns descriptors as int")]
pub fn descriptor(value: usize) -> RawFd {
    value as RawFd
}

pub fn address<T: ?Sized>(value: &T) -> usize {
    std::ptr::from_ref(value).addr()
}
