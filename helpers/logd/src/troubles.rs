//! The messages of the other threads for PID 1.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Texts for PID 1 from the other threads.
pub struct Troubles {
    texts: Mutex<Vec<String>>,
    wake: EventFd,
}

impl Troubles {
    pub fn new() -> io::Result<Troubles> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_value_and_flags(0, flags)?;
        Ok(Troubles { texts: Mutex::new(Vec::new()), wake })
    }

    pub fn tell(&self, text: String) {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        self.wake();
    }

    /// Lets the reader look what was lost.
    pub fn wake(&self) {
        // It cannot fail but for a count that is full, and then the reader is awake.
        let _ = self.wake.write(1);
    }

    pub fn take(&self) -> Vec<String> {
        let _ = self.wake.read();
        std::mem::take(&mut self.texts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Readable once there is a message.
impl AsFd for Troubles {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
