//! What the process says to PID 1.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kelson_image::{Progress, REPORT_DESCRIPTOR, Report};

/// Writes reports; shared by all that have something to say.
pub struct Reporter {
    pipe: Mutex<File>,
    bytes_done: AtomicU64,
    bytes_total: AtomicU64,
    layer: AtomicU32,
    layers: AtomicU32,
}

impl Reporter {
    /// Takes descriptor 3 over.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a system call on a number; an error is told by its result.
        if unsafe { libc::fcntl(REPORT_DESCRIPTOR, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open, and whoever starts this process gives it away.
        Ok(Self::to(unsafe { File::from_raw_fd(REPORT_DESCRIPTOR) }))
    }

    pub fn to(pipe: File) -> Self {
        Self {
            pipe: Mutex::new(pipe),
            bytes_done: AtomicU64::new(0),
            bytes_total: AtomicU64::new(0),
            layer: AtomicU32::new(0),
            layers: AtomicU32::new(0),
        }
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
                // SAFETY: one structure, as many as are told; the descriptor stays open as long as the process lives.
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

    pub fn heartbeat(&self) {
        self.send(&Report::Progress(Progress {
            bytes_done: self.bytes_done.load(Ordering::Relaxed),
            bytes_total: self.bytes_total.load(Ordering::Relaxed),
            layer: self.layer.load(Ordering::Relaxed),
            layers: self.layers.load(Ordering::Relaxed),
        }));
    }

    /// The work begins, or starts again.
    pub fn begin(&self, bytes_total: u64, layers: usize) {
        self.bytes_done.store(0, Ordering::Relaxed);
        self.bytes_total.store(bytes_total, Ordering::Relaxed);
        self.layer.store(0, Ordering::Relaxed);
        self.layers.store(u32::try_from(layers).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub fn add_bytes(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The layer that is being unpacked, from 1.
    pub fn at_layer(&self, layer: usize) {
        self.layer.store(u32::try_from(layer).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}
