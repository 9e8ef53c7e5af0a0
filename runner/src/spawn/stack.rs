//! The stack on which a child runs until its exec: made once a spawner thread, with a page below it that faults.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The steps of the child need a few hundred bytes in a release build; only pages that are touched cost memory.
const SIZE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(64 * 1024 - 1);
const GUARD: usize = 4096 * 4;

/// A mapped stack; unmapped when dropped.
pub(crate) struct ChildStack {
    base: NonNull<std::ffi::c_void>,
}

// SAFETY: the mapping belongs to this value alone and may be used from any thread.
unsafe impl Send for ChildStack {}

impl ChildStack {
    /// # Errors
    /// When memory is short.
    pub(crate) fn new() -> io::Result<Self> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_STACK | MapFlags::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base = unsafe { mmap_anonymous(None, SIZE, protection, flags) }?;
        let stack = ChildStack { base };
        // SAFETY: the first pages of the mapping that was just made; nothing uses them.
        unsafe { mprotect(base, GUARD, ProtFlags::PROT_NONE) }?;
        Ok(stack)
    }

    /// Lowest usable address.
    pub(crate) fn bottom(&self) -> usize {
        self.base.as_ptr().addr().saturating_add(GUARD)
    }

    /// Usable bytes above [`ChildStack::bottom`]; the top is aligned to a page.
    pub(crate) fn size(&self) -> usize {
        SIZE.get().saturating_sub(GUARD)
    }
}

impl Drop for ChildStack {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`; a child that ran on it has executed or ended (CLONE_VFORK).
        let _ = unsafe { munmap(self.base, SIZE.get()) };
    }
}
