//! The incarnations of PID 1, as the kernel tells them apart.

use std::fs;

/// A mark of an incarnation: the start of its stack, which the kernel draws by chance with each `execve`.
///
/// Another life can be seen so before it answers, and nobody has to be asked.
pub fn of_pid_1() -> Option<u64> {
    let text = fs::read_to_string("/proc/1/stat").ok()?;
    // The name of the program is in brackets and may hold anything; the state, which is the 3rd field, comes after it.
    let (_, rest) = text.rsplit_once(')')?;
    const STARTSTACK: usize = 28;
    rest.split_whitespace().nth(STARTSTACK - 3)?.parse().ok()
}

/// The resources that PID 1 holds: one that grows from one incarnation to the next would be used up one day.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    pub descriptors: usize,
    pub threads: usize,
    /// Private memory in KiB, its program apart.
    pub memory: u64,
}

impl Held {
    pub fn now() -> Option<Held> {
        let count = |folder| fs::read_dir(folder).ok().map(Iterator::count);
        let status = fs::read_to_string("/proc/1/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        Some(Held {
            descriptors: count("/proc/1/fd")?,
            threads: count("/proc/1/task")?,
            memory: line.split_whitespace().next()?.parse().ok()?,
        })
    }
}
