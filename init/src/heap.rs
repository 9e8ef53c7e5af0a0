//! The C library's heap, kept small: a supervisor allocates much once, while all services start, and little after.

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

/// Counts allocations for `make costs`, which reads the counter from the memory of PID 1. Never in a release.
#[cfg(feature = "faults")]
mod counter {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicU64, Ordering};

    // SAFETY: nothing else of this program has that name.
    #[unsafe(no_mangle)]
    static KELSON_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

    struct Counting;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    // SAFETY: the heap of the C library does everything.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            KELSON_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the caller keeps the contract of the trait.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: as above.
            unsafe { System.dealloc(pointer, layout) }
        }

        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            KELSON_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: as above.
            unsafe { System.realloc(pointer, layout, size) }
        }
    }
}
