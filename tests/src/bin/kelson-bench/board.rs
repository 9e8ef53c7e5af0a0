//! The file that every service reports to: when it started, and how many have. `hack/bench-programs/board.h` is the
//! services' side of it.
//!
//! Nobody polls: the service that makes the count full wakes the driver (a futex in the shared file), and the end of
//! the last service closes the last writer of a FIFO.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

#[repr(C)]
struct Header {
    reached: AtomicU32,
    count: AtomicU32,
    target: AtomicU32,
    unused: u32,
}

#[repr(C)]
pub struct Slot {
    started: AtomicU64,
    pid: AtomicU32,
    runs: AtomicU32,
}

impl Slot {
    /// CLOCK_MONOTONIC at the first line of its `main`, in nanoseconds.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::SeqCst)
    }

    /// In its own PID namespace.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::SeqCst)
    }

    /// How often it has started.
    pub fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }
}

pub struct Board {
    path: PathBuf,
    map: *mut libc::c_void,
    size: usize,
    slots: usize,
    alive: File,
}

impl Board {
    pub fn new(path: &Path, slots: usize) -> io::Result<Board> {
        let size = size_of::<Header>() + slots * size_of::<Slot>();
        let file = OpenOptions::new().create_new(true).read(true).write(true).open(path)?;
        file.set_len(size as u64)?;
        // SAFETY: the file is as long as the mapping; all of it is used through atomics only.
        let map = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let fifo = CString::new([path.as_os_str().as_bytes(), b".alive"].concat())?;
        // SAFETY: the path is a C string.
        let alive = unsafe {
            if libc::mkfifo(fifo.as_ptr(), 0o600) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::open(fifo.as_ptr(), libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC)
        };
        if alive < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor has just been opened and is nobody else's.
        let alive = unsafe { File::from_raw_fd(alive) };
        Ok(Board { path: path.to_owned(), map, size, slots, alive })
    }

    /// The one word that the service of this slot is given; `ready` as service.c says.
    pub fn word(&self, slot: usize, ready: char) -> String {
        format!("{}:{slot}:{}:{ready}", self.path.display(), self.slots)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header, is aligned to a page and lives as long as `self`.
        unsafe { &*self.map.cast() }
    }

    pub fn slots(&self) -> &[Slot] {
        // SAFETY: behind the header there are `slots` slots, all of them atomics, zero at first.
        unsafe {
            std::slice::from_raw_parts(self.map.cast::<u8>().add(size_of::<Header>()).cast(), self.slots)
        }
    }

    /// From here on [`Board::wait`] is for this many more starts.
    pub fn expect(&self, more: u32) {
        let header = self.header();
        header.reached.store(0, Ordering::SeqCst);
        header.target.store(header.count.load(Ordering::SeqCst) + more, Ordering::SeqCst);
    }

    /// True once the expected starts have been reported, false when they have not in time.
    pub fn wait(&self, patience: Duration) -> bool {
        let word = &self.header().reached;
        let deadline = now() + patience.as_nanos() as u64;
        while word.load(Ordering::SeqCst) == 0 {
            let left = deadline.saturating_sub(now());
            if left == 0 {
                return false;
            }
            let left = timespec(left);
            // SAFETY: the word is mapped, the time is initialised; whatever it answers, the word is looked at again.
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 0, &left) };
        }
        true
    }

    /// How many starts there have been.
    pub fn count(&self) -> u32 {
        self.header().count.load(Ordering::SeqCst)
    }

    /// Returns when no service is left; false when there still is one after that time.
    pub fn wait_gone(&self, patience: Duration) -> bool {
        let mut poll = libc::pollfd { fd: self.alive.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one live pollfd.
        let ready = unsafe { libc::poll(&mut poll, 1, patience.as_millis() as i32) };
        ready == 1 && poll.revents & libc::POLLHUP != 0
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: mapped with this size; no reference to it outlives `self`.
        unsafe { libc::munmap(self.map, self.size) };
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    let mut time = timespec(0);
    // SAFETY: a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}
