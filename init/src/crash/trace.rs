//! The backtrace, as far as a signal handler can find it.
//!
//! The unwinder of the compiler's own library is used, which needs no memory. It is not sworn to be safe in a handler:
//! a stack that is overwritten may lead it astray. So the caller has a time limit and survives a fault in here.

use std::ffi::{c_int, c_void};

/// `_URC_NO_REASON` and `_URC_END_OF_STACK` of the unwinder's ABI (the Itanium C++ ABI's first level).
const GO_ON: c_int = 0;
const ENOUGH: c_int = 5;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(context: *mut c_void, argument: *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    /// Of the linker: the program's first byte.
    static __ehdr_start: u8;
}

/// Calls for each address from here up, the innermost first, until it says that it is enough.
pub fn walk(each: &mut dyn FnMut(u64) -> bool) {
    extern "C" fn visit(context: *mut c_void, argument: *mut c_void) -> c_int {
        // SAFETY: it is what `walk` hands over below, which waits for us.
        let each = unsafe { &mut *argument.cast::<&mut dyn FnMut(u64) -> bool>() };
        // SAFETY: the unwinder's own context, in the call in which it is valid.
        let address = unsafe { _Unwind_GetIP(context) };
        if address != 0 && each(offset(address)) { GO_ON } else { ENOUGH }
    }
    let mut each = each;
    // SAFETY: the argument outlives the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut each).cast()) };
}

/// Counted from the program's first byte: the kernel puts it somewhere else each time.
pub fn offset(address: usize) -> u64 {
    let first = (&raw const __ehdr_start).addr();
    u64::try_from(address.wrapping_sub(first)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn deeper(levels: u32, most: usize) -> Vec<u64> {
        let mut frames = Vec::new();
        if levels > 0 {
            frames = std::hint::black_box(deeper)(levels - 1, most);
            std::hint::black_box(&frames);
            return frames;
        }
        walk(&mut |offset| {
            frames.push(offset);
            frames.len() < most
        });
        frames
    }

    #[test]
    fn each_call_is_a_frame() {
        let shallow = deeper(0, 100).len();
        assert!(shallow > 3, "{shallow}");
        assert_eq!(deeper(5, 100).len(), shallow + 5);
        assert_eq!(deeper(50, 10).len(), 10);
        // All of them lie in the program, which has not 1 GB.
        assert!(deeper(5, 10).iter().all(|offset| *offset > 0 && *offset < 1 << 30));
    }
}
