//! The reports of the process to PID 1.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kelson_image::{Progress, REPORT_DESCRIPTOR, Report};

/// Writes reports; shared by all that have something to say.
pub struct Reporter {
    pipe: Mutex<File>,
    progress: Mutex<Progress>,
}

impl Reporter {
    /// Takes descriptor 3 over.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a system call on a number; its result shows an error.
        if unsafe { libc::fcntl(REPORT_DESCRIPTOR, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open, and the process that starts this one gives it away.
        let pipe = unsafe { File::from_raw_fd(REPORT_DESCRIPTOR) };
        Ok(Self { pipe: Mutex::new(pipe), progress: Mutex::default() })
    }

    /// Says it. When nobody listens any more, the process ends: nobody waits for its work.
    pub fn send(&self, report: &Report) {
        let bytes = kelson_image::encode(report);
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if pipe.write_all(&bytes).is_err() {
            std::process::exit(1);
        }
    }

    /// Ends the process as soon as the other end of the pipe is closed. (Not PR_SET_PDEATHSIG: that signal comes when
    /// the *thread* ends that started this process, and PID 1 lets its spawner threads end.)
    pub fn end_with_listener(self: &Arc<Self>) {
        let number = self.pipe.lock().unwrap_or_else(PoisonError::into_inner).as_raw_fd();
        let watch = move || {
            loop {
                let mut poll = libc::pollfd { fd: number, events: 0, revents: 0 };
                // SAFETY: one structure, as the count says; the descriptor stays open as long as the process
                // lives.
                let ready = unsafe { libc::poll(&raw mut poll, 1, -1) };
                if ready > 0 && poll.revents & (libc::POLLERR | libc::POLLHUP) != 0 {
                    // SAFETY: ends the process at once; nothing of it needs an orderly end.
                    unsafe { libc::_exit(1) };
                }
                if ready > 0 {
                    return;
                }
            }
        };
        // Without the thread the next report finds it out, within a second.
        let _ = std::thread::Builder::new().stack_size(64 << 10).spawn(watch);
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn heartbeat(&self) {
        let progress = *self.progress();
        self.send(&Report::Progress(progress));
    }

    /// The work begins, or starts again.
    pub fn begin(&self, bytes_total: u64, layers: usize) {
        let layers = u32::try_from(layers).unwrap_or(u32::MAX);
        *self.progress() = Progress { bytes_total, layers, ..Progress::default() };
    }

    pub fn add_bytes(&self, bytes: u64) {
        let mut progress = self.progress();
        progress.bytes_done = progress.bytes_done.wrapping_add(bytes);
    }

    /// The layer that is being unpacked, from 1.
    pub fn at_layer(&self, layer: usize) {
        self.progress().layer = u32::try_from(layer).unwrap_or(u32::MAX);
    }
}
