//! A new user namespace, held by a process that does nothing.

use nix::errno::Errno;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

/// The process. It lasts as long as this value.
#[derive(Debug)]
pub struct Held(Pid);

impl Held {
    /// # Errors
    /// What the kernel says: ENOSPC where there may be no more such namespaces.
    pub fn new() -> nix::Result<Held> {
        let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
        let parent = libc::c_long::from(nix::unistd::getpid().as_raw());
        // SAFETY: without a stack of its own it is a fork, with memory that is a copy. The child makes raw calls alone, which
        // touch no lock that another thread may have held, and never returns.
        let made = unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0, 0, 0, 0) };
        let pid = Errno::result(made)?;
        if pid == 0 {
            loop {
                // SAFETY: none takes a pointer. The child ends with its parent, also with one that has ended already.
                unsafe {
                    libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                    if libc::syscall(libc::SYS_getppid) != parent {
                        libc::syscall(libc::SYS_exit, 0);
                    }
                    libc::syscall(libc::SYS_ppoll, 0, 0, 0, 0, 0);
                }
            }
        }
        Ok(Held(Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ERANGE)?)))
    }

    pub fn pid(&self) -> i32 {
        self.0.as_raw()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.0, nix::sys::signal::Signal::SIGKILL);
        let _ = waitpid(self.0, None);
    }
}
