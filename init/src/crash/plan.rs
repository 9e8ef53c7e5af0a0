//! How PID 1 executes itself: made ready when all is well, so that a fault has nothing to make.

use std::ffi::{CStr, CString, c_char};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use super::page::Page;
use crate::options::Mode;
use crate::{entry, memory, reexec};

/// A signal handler has no arguments of its own: this is the one thing of PID 1 that must be found without any.
static PLAN: OnceLock<Plan> = OnceLock::new();

/// Strings for `execve`, with the null that ends them.
struct Strings {
    pointers: Vec<*const c_char>,
    /// The strings that they point to.
    _strings: Vec<CString>,
}

// SAFETY: the pointers are read only, and what they point to is owned beside them and never changed.
unsafe impl Send for Strings {}
// SAFETY: as above.
unsafe impl Sync for Strings {}

impl Strings {
    fn new(strings: Vec<CString>) -> Strings {
        let mut pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Strings { pointers, _strings: strings }
    }
}

/// All that a fault needs.
pub struct Plan {
    arguments: Strings,
    environment: Strings,
    program: OwnedFd,
    pub page: Arc<Page>,
    pub mode: Mode,
}

/// Makes it ready. An earlier plan stays.
///
/// # Errors
/// When there is no descriptor of the program.
pub fn make(mode: Mode, page: Arc<Page>) -> std::io::Result<()> {
    let (arguments, environment) = entry::arguments_and_environment();
    let environment = page.name_in(reexec::with_mark(environment));
    let plan = Plan {
        arguments: Strings::new(arguments),
        environment: Strings::new(environment),
        program: memory::exe_fd()?,
        page,
        mode,
    };
    let _ = PLAN.set(plan);
    Ok(())
}

/// The plan that was prepared. Safe in a signal handler.
pub fn plan() -> Option<&'static Plan> {
    PLAN.get()
}

pub fn page() -> Option<&'static Page> {
    plan().map(|plan| &*plan.page)
}

impl Plan {
    /// Executes the program again. Returns only if that fails. Safe in a signal handler.
    pub fn execute(&self) {
        const EMPTY: &CStr = c"";
        self.page.keep_open();
        // SAFETY: the strings end in zeroes and the lists in null pointers; they are never freed.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                self.program.as_raw_fd(),
                EMPTY.as_ptr(),
                self.arguments.pointers.as_ptr(),
                self.environment.pointers.as_ptr(),
                libc::AT_EMPTY_PATH,
            );
        }
    }
}
