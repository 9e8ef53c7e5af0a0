//! Notices a main loop that does not turn any more (two locks that wait for each other, a loop without an end).
//!
//! The runtime says when its loop rests and when it wakes up. A timer is set at the first wake-up and runs out
//! [`LOOK`] later, in a thread of its own. A loop that rests then is well, and the timer stays off until it wakes up
//! again: a host on which nothing happens is not woken for this. One that does not rest is asked to answer, which any
//! turn of it does. No answer for [`STALL`]: it stands still, and that is a crash like any other.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::handler;
use super::stack::alternate_stack;

/// From a wake-up of the loop to the look at it.
const LOOK: Duration = Duration::from_secs(5);
/// How long a loop may leave a question without an answer, in slices: a process that was stopped as a whole
/// finds one slice over at once, and not all of them.
const SLICES: u32 = 10;
const SLICE: Duration = Duration::from_secs(1);

/// Knows whether the loop rests. Cheap to clone.
#[derive(Clone)]
pub struct Watcher(Arc<Shared>);

struct Shared {
    timer: TimerFd,
    rests: AtomicBool,
    armed: AtomicBool,
}

impl Watcher {
    /// # Errors
    /// When no descriptor is left.
    pub fn new() -> io::Result<Watcher> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        Ok(Watcher(Arc::new(Shared { timer, rests: false.into(), armed: false.into() })))
    }

    /// The loop has nothing to do.
    pub fn rests(&self) {
        self.0.rests.store(true, Ordering::SeqCst);
    }

    /// The loop goes on.
    pub fn wakes(&self) {
        self.0.rests.store(false, Ordering::SeqCst);
        self.arm();
    }

    fn arm(&self) {
        if !self.0.armed.swap(true, Ordering::SeqCst) {
            let after = Expiration::OneShot(TimeSpec::from_duration(LOOK));
            let _ = self.0.timer.set(after, TimerSetTimeFlags::empty());
        }
    }

    /// Begins to watch the loop of the runtime that this is called in, from a thread of its own.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn begin(self) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        let mut theirs = tokio::net::UnixStream::from_std(theirs)?;
        kelson_sys::spawn(async move {
            let mut question = [0; 1];
            while theirs.read_exact(&mut question).await.is_ok() && theirs.write_all(&question).await.is_ok()
            {
            }
        });
        let main = nix::unistd::gettid().as_raw();
        self.arm();
        let thread = std::thread::Builder::new().name("watcher".to_owned()).stack_size(128 << 10);
        thread.spawn(move || {
            let _ = alternate_stack();
            self.watch(ours, main);
        })?;
        Ok(())
    }

    fn watch(&self, mut loops: UnixStream, main: libc::pid_t) {
        loop {
            match self.0.timer.wait() {
                Ok(()) => {}
                Err(Errno::EINTR) => continue,
                // It can no longer be stopped.
                Err(_) => return,
            }
            // From here on a wake-up sets the timer again.
            self.0.armed.store(false, Ordering::SeqCst);
            if self.0.rests.load(Ordering::SeqCst) {
                continue;
            }
            if !answers(&mut loops) && !self.0.rests.load(Ordering::SeqCst) {
                handler::stalled(main);
            }
            self.arm();
        }
    }
}

/// Asks the loop, and waits for its answer.
fn answers(loops: &mut UnixStream) -> bool {
    if loops.write_all(b"?").is_err() {
        // The runtime has ended: there is no loop to look after.
        return true;
    }
    for _ in 0..SLICES {
        let mut watched = [PollFd::new(loops.as_fd(), PollFlags::POLLIN)];
        let slice = PollTimeout::try_from(SLICE).unwrap_or(PollTimeout::MAX);
        if poll(&mut watched, slice).is_ok_and(|ready| ready > 0) {
            return loops.read(&mut [0]).is_ok();
        }
    }
    false
}
