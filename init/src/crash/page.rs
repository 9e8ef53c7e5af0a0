//! The crash page: a few pages of memory in which a fault leaves its report for the next incarnation. Each
//! incarnation passes them on.
//!
//! The memory is a memfd, so it is there before `/run` is and whatever becomes of `/run`. It is mapped once, when all
//! is well: what is done in the fault is to store numbers. The next incarnation finds the descriptor by its
//! environment, and believes what has the right size, seals and first words.

#[cfg(test)]
mod tests;

use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kelson_services::host::ShutdownAction;
use nix::fcntl::{FcntlArg, FdFlag, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::entry;
use crate::supervisor::Intent;

/// Names the descriptor in the environment.
pub const VARIABLE: &str = "KELSON_CRASHES";
/// "KELSONC" and the version of what follows.
const MAGIC: u64 = 0x4b45_4c53_4f4e_4302;
const SEALS: SealFlag = SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_SEAL);

/// How many crashes a life can tell apart in time. A limit above it is never reached.
pub const TIMES: usize = 1024;
/// How many addresses of a backtrace are kept.
pub const FRAMES: usize = 40;
/// How much of a text is kept, in words.
const TEXT: usize = 48;

/// The layout of the memory. All releases agree on it: the next incarnation may be of another one. A later
/// release may have made a longer page, of which this one uses a part.
#[repr(C)]
#[derive(Debug)]
struct Words {
    magic: AtomicU64,
    /// Crashes so far, and those of them that were reported.
    count: AtomicU64,
    reported: AtomicU64,
    ending: AtomicU64,
    last: AtomicU64,
    /// Of all of it, in words.
    length: AtomicU64,
    /// 0: no service has decided the exit status of the run; else one more than it.
    status: AtomicU64,
    _later: [AtomicU64; 9],
    // The newest crash.
    cause: AtomicU64,
    signal: AtomicU64,
    code: AtomicU64,
    sender: AtomicU64,
    address: AtomicU64,
    time: AtomicU64,
    frame_count: AtomicU64,
    _unused: AtomicU64,
    thread: [AtomicU64; 2],
    _more: [AtomicU64; 6],
    frames: [AtomicU64; FRAMES],
    text: [AtomicU64; TEXT],
    _between: [AtomicU64; 392],
    /// A ring.
    times: [AtomicU64; TIMES],
    _rest: [AtomicU64; 512],
}

/// In words of eight bytes.
const SIZE: usize = size_of::<Words>() / 8;
const _: () = assert!(SIZE == 2048 && std::mem::offset_of!(Words, times) == 512 * 8);

fn get(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// Why PID 1 crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Signal,
    Panic,
    /// The main loop did not turn.
    Stall,
}

/// A crash, as it was written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    pub cause: Cause,
    /// The signal, 0 where there was none.
    pub signal: i32,
    /// The kernel's code for the signal's origin (`si_code`); and the sender, where a process sent it.
    pub code: i32,
    pub sender: i32,
    /// The address that could not be used.
    pub address: u64,
    /// Since the kernel's start.
    pub time: Duration,
    pub thread: String,
    /// Where it was and how it came there, counted from the program's first byte.
    pub frames: Vec<u64>,
    /// The message of a panic.
    pub text: String,
}

/// How the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    pub action: ShutdownAction,
    /// The exit status, where a service has decided it.
    pub status: Option<u8>,
}

impl Ending {
    /// What is asked for. A failed boot starts again.
    pub fn of(intent: Option<&Intent>) -> Ending {
        let reboot = Ending { action: ShutdownAction::Reboot, status: None };
        intent.map_or(reboot, |intent| Ending { action: intent.action, status: intent.status })
    }
}

/// The facts about a crash at its place, in a form that a signal handler can make.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub cause: Cause,
    pub signal: i32,
    pub code: i32,
    pub sender: i32,
    pub address: u64,
    pub text: &'a [u8],
}

/// The memory.
#[derive(Debug)]
pub struct Page {
    words: &'static Words,
    memory: OwnedFd,
}

impl Page {
    /// That of the previous incarnation, or a new one.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn find_or_make() -> std::io::Result<Page> {
        if let Some(page) = std::env::var_os(VARIABLE).and_then(|number| Page::find(&number)) {
            return Ok(page);
        }
        Page::make()
    }

    fn make() -> std::io::Result<Page> {
        let memory = memfd_create(c"kelson-crashes", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        nix::unistd::ftruncate(&memory, i64::try_from(SIZE.saturating_mul(8)).unwrap_or_default())?;
        fcntl(&memory, FcntlArg::F_ADD_SEALS(SEALS))?;
        let page = Page { words: map(&memory)?, memory };
        // All of it is there from now on: a fault must not need memory.
        page.all().iter().for_each(|word| set(word, 0));
        set(&page.words.magic, MAGIC);
        set(&page.words.length, SIZE as u64);
        Ok(page)
    }

    fn find(number: &OsString) -> Option<Page> {
        let number = number.to_str()?.parse::<i32>().ok().filter(|number| *number > 2)?;
        let seals = fcntl(
            // SAFETY: it is only looked at here, and a number that is none is an error.
            unsafe { std::os::fd::BorrowedFd::borrow_raw(number) },
            FcntlArg::F_GET_SEALS,
        );
        if seals != Ok(SEALS.bits()) {
            return None;
        }
        // SAFETY: it is open, has the seals of a page, and nobody else in this new program knows of it.
        let memory = unsafe { OwnedFd::from_raw_fd(number) };
        let size = u64::try_from(nix::sys::stat::fstat(&memory).ok()?.st_size).ok()?;
        if size < (SIZE as u64).saturating_mul(8) {
            return None;
        }
        // Children have no use for it.
        let _ = fcntl(&memory, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
        let page = Page { words: map(&memory).ok()?, memory };
        let whole = get(&page.words.length).checked_mul(8) == Some(size);
        (get(&page.words.magic) == MAGIC && whole).then_some(page)
    }

    fn all(&self) -> &'static [AtomicU64; SIZE] {
        // SAFETY: the words are these, one after the other.
        unsafe { &*std::ptr::from_ref(self.words).cast() }
    }

    /// The environment for the next program, in which it alone is named.
    pub fn name_in(&self, environment: Vec<CString>) -> Vec<CString> {
        entry::with_variable(environment, VARIABLE, self.memory.as_raw_fd())
    }

    /// It stays open over the next `execve`. Safe in a signal handler.
    pub fn keep_open(&self) {
        // SAFETY: a system call on a number.
        unsafe { libc::fcntl(self.memory.as_raw_fd(), libc::F_SETFD, 0) };
    }

    /// Writes a crash down, but for its frames. Safe in a signal handler.
    pub fn write(&self, facts: &Facts<'_>) {
        let words = self.words;
        let time = u64::try_from(now().as_nanos()).unwrap_or(u64::MAX);
        let count = get(&words.count);
        if let Some(slot) = words.times.get(slot(count)) {
            set(slot, time);
        }
        let cause = match facts.cause {
            Cause::Signal => 0,
            Cause::Panic => 1,
            Cause::Stall => 2,
        };
        set(&words.cause, cause);
        set(&words.signal, u64::from(facts.signal.cast_unsigned()));
        set(&words.code, u64::from(facts.code.cast_unsigned()));
        set(&words.sender, u64::from(facts.sender.cast_unsigned()));
        set(&words.address, facts.address);
        set(&words.time, time);
        set(&words.frame_count, 0);
        let mut name = [0_u8; 16];
        // SAFETY: the kernel writes at most 16 bytes there.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        set_bytes(&words.thread, &name);
        set_bytes(&words.text, facts.text);
        set(&words.count, count.saturating_add(1));
    }

    /// Adds an address to the backtrace. False when there is no room. Safe in a signal handler.
    pub fn add_frame(&self, offset: u64) -> bool {
        let count = get(&self.words.frame_count);
        let Some(frame) = usize::try_from(count).ok().and_then(|count| self.words.frames.get(count)) else {
            return false;
        };
        set(frame, offset);
        set(&self.words.frame_count, count.saturating_add(1));
        true
    }

    /// The last crash, if it is not reported yet.
    pub fn newest(&self) -> Option<Crash> {
        let words = self.words;
        if get(&words.count) == get(&words.reported) {
            return None;
        }
        let signed = |word| u32::try_from(get(word)).unwrap_or_default().cast_signed();
        let frames = usize::try_from(get(&words.frame_count)).unwrap_or_default();
        Some(Crash {
            cause: match get(&words.cause) {
                0 => Cause::Signal,
                1 => Cause::Panic,
                _ => Cause::Stall,
            },
            signal: signed(&words.signal),
            code: signed(&words.code),
            sender: signed(&words.sender),
            address: get(&words.address),
            time: Duration::from_nanos(get(&words.time)),
            thread: text(&words.thread),
            frames: words.frames.iter().take(frames).map(get).collect(),
            text: text(&words.text),
        })
    }

    /// Nobody needs to tell of what there has been.
    pub fn reported(&self) {
        set(&self.words.reported, get(&self.words.count));
    }

    /// How many crashes there have been since then, of the last [`TIMES`].
    pub fn crashes_since(&self, since: Duration) -> u32 {
        let known = usize::try_from(get(&self.words.count)).unwrap_or(TIMES);
        let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let times = self.words.times.iter().take(known).map(get);
        u32::try_from(times.filter(|time| *time >= since).count()).unwrap_or(u32::MAX)
    }

    /// The services are past.
    pub fn end(&self, Ending { action, status }: Ending) {
        set(&self.words.status, status.map_or(0, |status| u64::from(status).saturating_add(1)));
        let action = match action {
            ShutdownAction::Reboot => 1,
            ShutdownAction::PowerOff => 2,
            ShutdownAction::Halt => 3,
            ShutdownAction::Kexec => 4,
        };
        set(&self.words.ending, action);
    }

    /// How the run ends, once the services are stopped.
    pub fn ending(&self) -> Option<Ending> {
        let action = match get(&self.words.ending) {
            1 => ShutdownAction::Reboot,
            2 => ShutdownAction::PowerOff,
            3 => ShutdownAction::Halt,
            4 => ShutdownAction::Kexec,
            _ => return None,
        };
        let status = get(&self.words.status).checked_sub(1).and_then(|status| u8::try_from(status).ok());
        Some(Ending { action, status })
    }

    /// There will be no other life.
    pub fn make_last(&self) {
        set(&self.words.last, 1);
    }

    pub fn is_last(&self) -> bool {
        get(&self.words.last) != 0
    }
}

/// Safe in a signal handler.
fn set_bytes(words: &[AtomicU64], bytes: &[u8]) {
    let mut parts = bytes.chunks(8);
    for place in words {
        let mut word = [0_u8; 8];
        for (to, from) in word.iter_mut().zip(parts.next().unwrap_or_default()) {
            *to = *from;
        }
        set(place, u64::from_le_bytes(word));
    }
}

fn text(words: &[AtomicU64]) -> String {
    let bytes = words.iter().flat_map(|word| get(word).to_le_bytes());
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    // A text that was cut may end in the middle of a character.
    String::from_utf8_lossy(&bytes).trim_end_matches('\u{fffd}').to_owned()
}

fn slot(count: u64) -> usize {
    usize::try_from(count & (TIMES as u64).saturating_sub(1)).unwrap_or_default()
}

/// Since the kernel's start. Safe in a signal handler.
pub fn now() -> Duration {
    crate::boot::history::since_kernel()
}

fn map(memory: &OwnedFd) -> std::io::Result<&'static Words> {
    // SAFETY: a new mapping, at a place that the kernel chooses.
    let place = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<Words>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            memory.as_raw_fd(),
            0,
        )
    };
    if place == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the mapping is aligned to a page, as large as the words, zeroed or written by equal words, sealed against
    // shrinking, and never unmapped; every access to it is atomic.
    Ok(unsafe { &*place.cast::<Words>() })
}
