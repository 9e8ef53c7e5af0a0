//! While the machine has swap, PID 1 must not wait for the disk of that swap.
//!
//! The memory that PID 1 has used is locked at all times ([`crate::protection`]). Two risks remain. PID 1
//! runs from a file in memory, whose pages are swapped like others: the pages that it has not used yet, the crash
//! handler and the shutdown among them, would have to be read from the swap. And where memory is short, a
//! process that asks for some writes the pages of others to the swap, and waits if the disk takes no more. So
//! while there is swap, the whole program is locked, and PID 1 gets memory without input or output. A machine
//! without swap pays for neither.
//!
//! Before Linux 6.4 a tmpfs cannot be kept out of the swap, and the next incarnation would wait for the records of this
//! one. So the files of the state are locked as well. New and longer ones are looked for each [`LOOK`]: what was just
//! written is not what the kernel swaps first.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_runner::SET_IO_FLUSHER;
use kelson_sys::descriptor::Watched;
use kelson_sys::swaps;
use nix::errno::Errno;
use tokio::io::Interest;

use crate::memory;

/// How often the state is looked at while there is swap.
const LOOK: Duration = Duration::from_secs(5);
/// The state has few files, and papers in one folder.
const DEPTH: u32 = 2;

/// The measures against swap; undone when dropped.
#[derive(Debug)]
pub struct Guard {
    program: Option<Locked>,
    state: PathBuf,
    /// Files of the state, by their inode.
    files: HashMap<u64, Locked>,
}

impl Guard {
    /// `state` is the folder of the state.
    pub fn new(state: PathBuf) -> Guard {
        Guard { program: None, state, files: HashMap::new() }
    }

    /// Does what the machine's swap asks for now.
    pub fn look(&mut self) {
        let swap = !swaps::read().is_empty();
        self.lock_state(swap);
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
            match program() {
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

    /// Locks the files of the state that are new or longer, and lets go of those that are gone.
    fn lock_state(&mut self, swap: bool) {
        let mut before = std::mem::take(&mut self.files);
        if !swap {
            return;
        }
        for path in files(&self.state, DEPTH) {
            // One that is gone again was replaced by another.
            let Ok(file) = File::options().read(true).write(true).open(&path) else { continue };
            let Ok(metadata) = file.metadata() else { continue };
            let length = usize::try_from(whole_length(&file, &metadata)).unwrap_or_default();
            let locked = match before.remove(&metadata.ino()) {
                Some(locked) if locked.length == length => Ok(locked),
                _ if length == 0 => continue,
                _ => Locked::file(&file, length),
            };
            match locked {
                Ok(locked) => _ = self.files.insert(metadata.ino(), locked),
                Err(error) => {
                    tracing::warn!("PID 1 may wait for swap that holds {}: {error}", path.display());
                }
            }
        }
    }

    /// Looks again whenever swap is added or removed, and regularly while there is any.
    pub async fn watch(mut self) {
        let watched = File::open(swaps::PATH).and_then(|file| Watched::new(file, Interest::PRIORITY));
        let watched = match watched {
            Ok(watched) => watched,
            // A kernel without swap has no such file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                tracing::warn!(
                    "{} cannot be watched, swap that is added is not noticed: {error}",
                    swaps::PATH
                );
                return;
            }
        };
        loop {
            self.look();
            tokio::select! {
                changed = watched.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = tokio::time::sleep(LOOK), if self.program.is_some() => {}
            }
        }
    }
}

/// The length of a file after it was made as long as the room that it has: only what is within its length can be
/// locked, and room that was set aside is swapped like what is written.
fn whole_length(file: &File, metadata: &std::fs::Metadata) -> u64 {
    const PAGE: u64 = 4096;
    const BLOCK: u64 = 512;
    let room = metadata.blocks().saturating_mul(BLOCK);
    let longer = room > metadata.len().next_multiple_of(PAGE) && file.set_len(room).is_ok();
    if longer { room } else { metadata.len() }
}

/// The files in a folder, and in those below it.
fn files(folder: &Path, depth: u32) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let below = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_file() => vec![entry.path()],
        Ok(kind) if kind.is_dir() && depth > 1 => files(&entry.path(), depth.saturating_sub(1)),
        _ => Vec::new(),
    };
    entries.flatten().flat_map(below).collect()
}

/// The whole program, as it was loaded.
fn program() -> io::Result<Locked> {
    let file = std::fs::read_link("/proc/self/exe")?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let length = Some(loaded_length(&maps, &file)).filter(|_| memory::in_memory());
    let length = length.ok_or_else(|| io::Error::other("it does not run from memory"))?;
    Locked::file(&memory::exe_fd()?, length)
}

/// A second view of a file, all of it locked: a page of a file that is locked in one view stays in memory for all.
#[derive(Debug)]
struct Locked {
    place: *mut libc::c_void,
    length: usize,
}

// SAFETY: the mapping belongs to the process, and nothing is read or written through it.
unsafe impl Send for Locked {}

impl Locked {
    fn file(file: &impl AsRawFd, length: usize) -> io::Result<Locked> {
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let place = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let locked = Locked { place, length };
        // Not only what is used: this reads all of it.
        // SAFETY: the mapping above, whole.
        Errno::result(unsafe { libc::mlock(place, length) })?;
        Ok(locked)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing points into it.
        unsafe { libc::munmap(self.place, self.length) };
    }
}

/// How much of the program's file the kernel has mapped to run it, from the file's beginning: what is behind that is
/// for debuggers.
fn loaded_length(maps: &str, file: &Path) -> usize {
    let ends = maps.lines().filter_map(|line| {
        // start-end permissions offset device inode path
        let (range, rest) = line.split_once(' ')?;
        let (_, rest) = rest.split_once(' ')?;
        let (offset, rest) = rest.split_once(' ')?;
        if Path::new(rest.get(rest.find('/')?..)?) != file {
            return None;
        }
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        number(end)?.checked_sub(number(start)?)?.checked_add(number(offset)?)
    });
    ends.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_locked_while_there_is_swap() {
        let folder = Path::new("/dev/shm").join(format!("kelson-swap-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("papers/deep")).unwrap();
        for (name, length) in
            [("services", 5000), ("empty", 0), ("papers/intent", 10), ("papers/deep/no", 10)]
        {
            std::fs::write(folder.join(name), vec![1; length]).unwrap();
        }
        let room = File::create(folder.join("exits")).unwrap();
        nix::fcntl::fallocate(&room, nix::fcntl::FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, 16384).unwrap();
        let mut guard = Guard::new(folder.clone());
        let lengths = |guard: &Guard| {
            let mut lengths: Vec<usize> = guard.files.values().map(|locked| locked.length).collect();
            lengths.sort_unstable();
            lengths
        };
        guard.lock_state(true);
        assert_eq!(lengths(&guard), [10, 5000, 16384]);
        std::fs::write(folder.join("services"), vec![1; 9000]).unwrap();
        std::fs::remove_file(folder.join("papers/intent")).unwrap();
        guard.lock_state(true);
        assert_eq!(lengths(&guard), [9000, 16384]);
        guard.lock_state(false);
        assert!(guard.files.is_empty());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_program_is_as_long_as_what_is_mapped_of_it() {
        let maps = "7f0000000000-7f0000001000 r--p 00000000 00:01 5  /memfd:kelson (deleted)\n\
            7f0000001000-7f0000005000 r-xp 00001000 00:01 5  /memfd:kelson (deleted)\n\
            7f0000006000-7f0000008000 rw-p 00005000 00:01 5  /memfd:kelson (deleted)\n\
            7f0000009000-7f0000010000 rw-p 00000000 00:00 0 \n\
            7f0000020000-7f0000030000 rw-s 00000000 00:01 9  /memfd:kelson-crashes (deleted)\n\
            7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0  [stack]\n";
        assert_eq!(loaded_length(maps, Path::new("/memfd:kelson (deleted)")), 0x7000);
        let maps = "55550000-55551000 r-xp 00000000 00:02 7 /sbin/init\n";
        assert_eq!(loaded_length(maps, Path::new("/sbin/init")), 0x1000);
    }
}
