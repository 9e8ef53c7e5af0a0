//! Unique names for a process and for an incarnation of the host; and the parent of a process.

use kelson_sys::process::{self, NOT_EXECUTED};

/// Whether the process executes a program of its own.
pub(super) fn has_executed(pid: i32) -> bool {
    process::stat(pid, |stat| stat.flags()).ok().flatten().is_some_and(|flags| flags & NOT_EXECUTED == 0)
}

/// A start is made within one tick nearly always; then the clock tells what `/proc` would, for a tenth of the price.
const TICK_NANOSECONDS: u64 = 10_000_000;
/// The kernel's own reading of the clock may differ in the last digits.
const DOUBT_NANOSECONDS: u64 = 1_000;

/// The first and the last tick that an instant may be taken for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticks {
    earliest: u64,
    latest: u64,
}

/// This instant. `None`: the kernel's ticks are not the usual ones.
pub(super) fn ticks_now() -> Option<Ticks> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: sysconf takes a number; the timespec lives on this stack.
    let known = unsafe {
        libc::sysconf(libc::_SC_CLK_TCK) == 100
            && libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) == 0
    };
    let seconds = u64::try_from(now.tv_sec).ok().filter(|_| known)?;
    let nanoseconds = seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(now.tv_nsec).ok()?)?;
    Some(Ticks {
        earliest: nanoseconds.saturating_sub(DOUBT_NANOSECONDS) / TICK_NANOSECONDS,
        latest: nanoseconds.saturating_add(DOUBT_NANOSECONDS) / TICK_NANOSECONDS,
    })
}

/// The tick in which all between two instants lies. `None`: there are several.
pub(super) fn between(begun: Option<Ticks>, ended: Option<Ticks>) -> Option<u64> {
    let (begun, ended) = (begun?, ended?);
    (begun.earliest == ended.latest).then_some(ended.latest)
}

/// The boot id and this process's own start time, which `execve` keeps and which differs in every PID namespace.
pub(super) fn incarnation() -> String {
    let boot = process::boot_id().unwrap_or_default();
    let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    format!("{boot}-{}", process::start_time("self").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_within_one_tick_needs_no_proc() {
        let at = |earliest, latest| Some(Ticks { earliest, latest });
        assert_eq!(between(at(7, 7), at(7, 7)), Some(7));
        assert_eq!(between(at(6, 7), at(7, 7)), None);
        assert_eq!(between(at(7, 7), at(7, 8)), None);
        assert_eq!(between(None, at(7, 7)), None);
        let now = ticks_now().unwrap();
        assert!(now.latest >= process::start_time("self").unwrap());
    }

    #[test]
    fn a_life_is_one_word() {
        assert_eq!(incarnation(), incarnation());
        assert!(!incarnation().contains([':', ' ', '\n']));
    }
}
