//! The C library's heap, told to be small: a supervisor allocates much once, while all services start, and little after.

/// One heap for all threads: each of glibc's further ones keeps what it once had.
pub fn keep_one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: called before any other thread runs; the call takes numbers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        // Large blocks are mapped, and given back as soon as they are freed.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 * 1024);
    }
}

/// Gives free pages back to the kernel.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    crate::protection::unlocked(|| {
        // SAFETY: glibc takes its own locks.
        unsafe { libc::malloc_trim(0) };
    });
}
