//! While the machine has swap, PID 1 must not wait for the disk of that swap.
//!
//! What PID 1 has used of its memory is locked at all times ([`crate::protection`]). Two things are left. PID 1 runs from a
//! memfd, whose pages are swapped like others: those that it has not used yet, the crash handler and the shutdown among
//! them, would have to be read from the swap. And where memory is short, whoever asks for some writes others' pages to
//! the swap, and waits if the disk takes no more. So while there is swap, the whole program is locked, and PID 1 gets
//! memory without input or output. A machine without swap pays for neither.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use kelson_runner::SET_IO_FLUSHER;
use nix::errno::Errno;
use tokio::io::Interest;

use crate::{memory, readable};

/// The kernel's list of swap, and what tells when it changes.
const SWAPS: &str = "/proc/swaps";

/// What is done because of swap; undone when dropped.
#[derive(Debug, Default)]
pub struct Guard {
    program: Option<Program>,
}

impl Guard {
    /// Does what the machine's swap asks for now.
    pub fn look(&mut self) {
        let swap = std::fs::read_to_string(SWAPS).is_ok_and(|text| has_swap(&text));
        if swap == self.program.is_some() {
            return;
        }
        const UNUSED: libc::c_ulong = 0;
        // The main thread's alone; those that it makes later have it from there.
        // SAFETY: a system call on numbers.
        let set = unsafe { libc::prctl(SET_IO_FLUSHER, libc::c_ulong::from(swap), UNUSED, UNUSED, UNUSED) };
        if let Err(errno) = Errno::result(set) {
            tracing::warn!("PID 1 may wait for swap when it needs memory: {}", errno.desc());
        }
        self.program = None;
        if swap {
            match Program::lock() {
                Ok(program) => {
                    tracing::info!(
                        "the machine has swap: {} KiB of PID 1's program are locked",
                        program.length >> 10
                    );
                    self.program = Some(program);
                }
                Err(error) => tracing::warn!("PID 1 may wait for swap that holds its program: {error}"),
            }
        }
    }

    /// Looks again whenever swap is added or removed.
    pub async fn watch(mut self) {
        let watched = File::open(SWAPS).and_then(|file| readable::changeable(OwnedFd::from(file)));
        let watched = match watched {
            Ok(watched) => watched,
            // A kernel without swap has no such file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                tracing::warn!("{SWAPS} cannot be watched, swap that is added is not noticed: {error}");
                return;
            }
        };
        loop {
            self.look();
            match watched.ready(Interest::PRIORITY).await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return,
            }
        }
    }
}

/// Below a heading, a line for each.
fn has_swap(text: &str) -> bool {
    text.lines().nth(1).is_some()
}

/// A second view of the program, all of it locked: a page of a file that is locked in one view stays in memory for all.
#[derive(Debug)]
struct Program {
    place: *mut libc::c_void,
    length: usize,
}

// SAFETY: the mapping belongs to the process, and nothing is read or written through it.
unsafe impl Send for Program {}

impl Program {
    fn lock() -> io::Result<Program> {
        let length = loaded_length(&std::fs::read_to_string("/proc/self/maps")?)
            .ok_or_else(|| io::Error::other("it does not run from memory"))?;
        let file = memory::exe_fd()?;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let place = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let program = Program { place, length };
        // Not only what is used: this reads all of it.
        // SAFETY: the mapping above, whole.
        Errno::result(unsafe { libc::mlock(place, length) })?;
        Ok(program)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing points into it.
        unsafe { libc::munmap(self.place, self.length) };
    }
}

/// How much of the program's file the kernel has mapped to run it, from the file's beginning: what is behind that is for
/// debuggers. `None`: the program is no file in memory.
fn loaded_length(maps: &str) -> Option<usize> {
    let ends = maps.lines().filter_map(|line| {
        // start-end permissions offset device inode path
        let (range, rest) = line.split_once(' ')?;
        let (_, rest) = rest.split_once(' ')?;
        let (offset, rest) = rest.split_once(' ')?;
        if !memory::is_copy(Path::new(rest.get(rest.find('/')?..)?)) {
            return None;
        }
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        number(end)?.checked_sub(number(start)?)?.checked_add(number(offset)?)
    });
    ends.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_is_known_by_its_line() {
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert!(!has_swap("") && !has_swap(heading));
        assert!(has_swap(&format!("{heading}/dev/vda2 partition\t1048572\t0\t-2\n")));
    }

    #[test]
    fn the_program_is_as_long_as_what_is_mapped_of_it() {
        let maps = "7f0000000000-7f0000001000 r--p 00000000 00:01 5  /memfd:kelson (deleted)\n\
            7f0000001000-7f0000005000 r-xp 00001000 00:01 5  /memfd:kelson (deleted)\n\
            7f0000006000-7f0000008000 rw-p 00005000 00:01 5  /memfd:kelson (deleted)\n\
            7f0000009000-7f0000010000 rw-p 00000000 00:00 0 \n\
            7f0000020000-7f0000030000 rw-s 00000000 00:01 9  /memfd:kelson-crashes (deleted)\n\
            7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0  [stack]\n";
        assert_eq!(loaded_length(maps), Some(0x7000));
        assert_eq!(loaded_length("55550000-55551000 r-xp 00000000 08:01 7 /sbin/init\n"), None);
    }
}
