//! The unwinder's functions for a program in which nothing unwinds.
//!
//! The release programs abort at a panic and have no tables for an unwinder (hack/link.rs), but glibc names these functions
//! for the end of a thread from within, which Rust's threads never use. With them here, the linker leaves the unwinder of
//! the compiler out (docs/performance.md).

use std::ffi::c_int;
use std::process::abort;

/// `_URC_END_OF_STACK` of the unwinder's interface: there is no further frame.
const END_OF_STACK: c_int = 5;

#[unsafe(no_mangle)] // SAFETY: no other object of a program defines the name, and no argument is read.
extern "C" fn _Unwind_Backtrace() -> c_int {
    END_OF_STACK
}

/// Functions that only a program that unwinds calls.
macro_rules! never_called {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)] // SAFETY: as above.
            extern "C" fn $name() -> ! {
                abort()
            }
        )*
    };
}

never_called! {
    _Unwind_FindEnclosingFunction
    _Unwind_ForcedUnwind
    _Unwind_GetCFA
    _Unwind_GetDataRelBase
    _Unwind_GetIP
    _Unwind_GetIPInfo
    _Unwind_GetLanguageSpecificData
    _Unwind_GetRegionStart
    _Unwind_GetTextRelBase
    _Unwind_Resume
    _Unwind_SetGR
    _Unwind_SetIP
    __gcc_personality_v0
}
