//! What names a process, and a life of the host, for good; and whose child a process is.

use std::fs;
use std::io;
use std::str::FromStr;

/// Ticks since boot at which the process started, field 22 of `/proc/PID/stat`.
pub(crate) fn start_time(pid: &str) -> Option<u64> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// As [`start_time`], where that there is no such process must not be mistaken for that it cannot be told (no
/// descriptor is free).
pub(crate) fn started(pid: i32) -> io::Result<Option<u64>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(parse(&stat)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The process that made this one, or took it over. `None`: there is no such process, or none of this PID namespace.
pub fn parent_of(pid: i32) -> Option<i32> {
    parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The process is a copy of its parent still: `PF_FORKNOEXEC` of the kernel.
const NOT_EXECUTED: u64 = 0x40;

/// Whether the process executes a program of its own.
pub(super) fn has_executed(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    stat.and_then(|stat| field::<u64>(&stat, 9)).is_some_and(|flags| flags & NOT_EXECUTED == 0)
}

fn parent(stat: &str) -> Option<i32> {
    field(stat, 4)
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

/// The start time that stands in a `/proc/PID/stat`.
pub fn parse(stat: &str) -> Option<u64> {
    field(stat, 22)
}

/// A field of `/proc/PID/stat` by its number in proc(5), from the third on. The second is the program's name in brackets
/// and may hold anything, brackets too.
fn field<T: FromStr>(stat: &str, number: usize) -> Option<T> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// The boot id and this process's own start time, which `execve` keeps and every PID namespace has anew.
pub(super) fn life() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    format!("{boot}-{}", start_time("self").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat =
            "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9876 1000 100 18446744073709551615";
        assert_eq!(parse(stat), Some(9876));
        assert_eq!(parent(stat), Some(1));
        assert_eq!(
            i32::try_from(std::os::unix::process::parent_id()).ok(),
            parent_of(std::process::id().cast_signed())
        );
        assert!(start_time("self").is_some_and(|ticks| ticks > 0));
        assert_eq!(start_time("0"), None);
    }

    #[test]
    fn a_start_within_one_tick_needs_no_proc() {
        let at = |earliest, latest| Some(Ticks { earliest, latest });
        assert_eq!(between(at(7, 7), at(7, 7)), Some(7));
        assert_eq!(between(at(6, 7), at(7, 7)), None);
        assert_eq!(between(at(7, 7), at(7, 8)), None);
        assert_eq!(between(None, at(7, 7)), None);
        let now = ticks_now().unwrap();
        assert!(now.latest >= start_time("self").unwrap());
    }

    #[test]
    fn a_life_is_one_word() {
        assert_eq!(life(), life());
        assert!(!life().contains([':', ' ', '\n']));
    }
}
