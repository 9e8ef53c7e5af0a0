//! Low descriptor numbers that belong to one spawner thread, so that a start does not cost the copy of PID 1's table.
//!
//! With 1,000 services PID 1 holds thousands of descriptors. A child with a table of its own begins with a
//! copy of them all, and its exec closes each: more than all the rest of the start. Therefore the child
//! shares the table (`CLONE_FILES`), and its first step takes a copy of the numbers below [`Window::end`]
//! alone (`close_range(end, ~0, CLOSE_RANGE_UNSHARE)`). The descriptors of the child stand there: its spawner
//! puts them at the numbers of its window before the clone, and puts the placeholder back after it, as a
//! pipe's write end that stayed open in PID 1 would keep its reader from ever seeing the end.
//!
//! Until that first step the table is PID 1's own: the child opens and closes nothing before it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::dup3;

/// The standard descriptors, the program, and a few more. A start that needs more copies the whole table.
const SIZE: usize = 8;
/// Numbers below are left to who opens them first: signals, sockets, the log.
const LOWEST: RawFd = 16;
/// A window that ends higher saves nothing: this process had many descriptors before it made one.
const HIGHEST: RawFd = 512;

/// Reserved numbers of one thread; free again when dropped.
#[derive(Debug)]
pub(crate) struct Window {
    /// Stands at each number that is not in use. Of no file system: it would keep that from being unmounted.
    placeholder: OwnedFd,
    numbers: Vec<OwnedFd>,
    /// The descriptors at the first of the numbers.
    held: Vec<RawFd>,
    end: RawFd,
}

impl Window {
    /// One window for each of `count` threads; fewer, or none, where numbers are short or the kernel (or a filter that
    /// this process is under) knows no such call.
    pub(crate) fn reserve(count: usize) -> Vec<Window> {
        if !kernel_can() {
            return Vec::new();
        }
        (0..count).map_while(|_| Window::new().ok()).take_while(|window| window.end <= HIGHEST).collect()
    }

    fn new() -> nix::Result<Window> {
        let placeholder: OwnedFd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?.into();
        let mut numbers = Vec::with_capacity(SIZE);
        let mut end = 0;
        for _ in 0..SIZE {
            let number = fcntl(&placeholder, FcntlArg::F_DUPFD_CLOEXEC(LOWEST))?;
            // SAFETY: a descriptor that the kernel just made for us.
            numbers.push(unsafe { OwnedFd::from_raw_fd(number) });
            end = end.max(number.saturating_add(1));
        }
        Ok(Window { placeholder, numbers, held: Vec::with_capacity(SIZE), end })
    }

    /// The first number that the child does not get.
    pub(crate) fn end(&self) -> RawFd {
        self.end
    }

    /// A number below [`Window::end`] at which `source` stands until [`Window::clear`]. `None`: all are in use.
    pub(crate) fn hold(&mut self, source: BorrowedFd<'_>) -> Option<RawFd> {
        let raw = source.as_raw_fd();
        if raw < self.end {
            return Some(raw);
        }
        if let Some(at) = self.held.iter().position(|held| *held == raw) {
            return self.numbers.get(at).map(AsRawFd::as_raw_fd);
        }
        let number = self.numbers.get_mut(self.held.len())?;
        dup3(source, number, OFlag::O_CLOEXEC).ok()?;
        self.held.push(raw);
        Some(number.as_raw_fd())
    }

    /// Lets go of everything that was put here.
    pub(crate) fn clear(&mut self) {
        for at in (0..self.held.len()).rev() {
            let Some(number) = self.numbers.get_mut(at) else { continue };
            if let Err(errno) = dup3(self.placeholder.as_fd(), number, OFlag::O_CLOEXEC) {
                // Better one number less than a pipe that never ends.
                tracing::warn!("cannot reserve descriptor {} any longer: {errno}", number.as_raw_fd());
                drop(self.numbers.swap_remove(at));
            }
        }
        self.held.clear();
    }
}

/// Asks the kernel, for an empty range, on a thread that ends at once: the table that it cuts off is its own.
fn kernel_can() -> bool {
    let ask = || {
        let (none, flags) = (libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE);
        // SAFETY: numbers only.
        Errno::result(unsafe { libc::syscall(libc::SYS_close_range, none, none, flags) }).is_ok()
    };
    let thread = std::thread::Builder::new().stack_size(64 * 1024).spawn(ask);
    thread.ok().and_then(|thread| thread.join().ok()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(number: RawFd) -> String {
        std::fs::read_link(format!("/proc/self/fd/{number}")).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn what_was_put_into_a_window_is_gone_when_it_is_cleared() {
        let mut windows = Window::reserve(2);
        let (mut second, mut first) = (windows.pop().unwrap(), windows.pop().unwrap());
        let null = std::fs::File::open("/dev/null").unwrap();
        let high = fcntl(&null, FcntlArg::F_DUPFD_CLOEXEC(600)).unwrap();
        // SAFETY: made just now.
        let high = unsafe { OwnedFd::from_raw_fd(high) };
        let number = first.hold(high.as_fd()).unwrap();
        assert!(number < first.end());
        assert_eq!(target(number), "/dev/null");
        assert_eq!(first.hold(high.as_fd()), Some(number), "the same thing is held once");
        let other = second.hold(high.as_fd()).unwrap();
        assert_ne!(number, other, "each has numbers of its own");
        first.clear();
        assert_eq!(target(number), "anon_inode:[eventfd]");
        assert_eq!(target(other), "/dev/null");
        // A descriptor that stands low enough already stays where it is.
        assert_eq!(first.hold(second.placeholder.as_fd()), Some(second.placeholder.as_raw_fd()));
    }

    #[test]
    fn a_full_window_says_so() {
        let mut window = Window::reserve(1).pop().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let more: Vec<OwnedFd> = (0..=SIZE)
            .map(|_| fcntl(&null, FcntlArg::F_DUPFD_CLOEXEC(600)).unwrap())
            // SAFETY: made just now.
            .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
            .collect();
        let held = more.iter().filter_map(|fd| window.hold(fd.as_fd())).count();
        assert_eq!(held, SIZE);
        window.clear();
        assert!(window.hold(more[0].as_fd()).is_some());
    }
}
