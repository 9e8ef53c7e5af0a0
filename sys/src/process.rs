//! Facts about a process from proc: the fields of `stat` and `status` that Kelson needs, without a list of
//! all of them.
//!
//! A process may have any bytes for a name, also such as are no text; it ends at the last bracket.

use std::fmt::Display;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::str::FromStr;

/// The kernel's own threads (`PF_KTHREAD`).
pub const KERNEL_THREAD: u64 = 0x0020_0000;
/// A copy of its parent that has executed no program yet (`PF_FORKNOEXEC`).
pub const NOT_EXECUTED: u64 = 0x40;
/// Longer than any `stat`: a name of at most 64 bytes and fifty numbers.
const LONGEST_STAT: usize = 2048;

/// A line of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy)]
pub struct Stat<'a> {
    name: &'a [u8],
    /// From the third field on.
    fields: &'a str,
}

impl<'a> Stat<'a> {
    pub fn parse(line: &'a [u8]) -> Option<Stat<'a>> {
        let start = line.iter().position(|byte| *byte == b'(')?.checked_add(1)?;
        let end = line.iter().rposition(|byte| *byte == b')')?;
        let fields = std::str::from_utf8(line.get(end.checked_add(1)?..)?).ok()?;
        Some(Stat { name: line.get(start..end)?, fields })
    }

    pub fn name(&self) -> String {
        String::from_utf8_lossy(self.name).into_owned()
    }

    /// A letter, such as `R` for one that runs or waits for a processor.
    pub fn state(&self) -> Option<&'a str> {
        self.fields.split_ascii_whitespace().next()
    }

    /// 0: it has none in this PID namespace.
    pub fn parent(&self) -> Option<i32> {
        self.field(4)
    }

    /// `PF_` bits of the kernel, such as [`KERNEL_THREAD`].
    pub fn flags(&self) -> Option<u64> {
        self.field(9)
    }

    pub fn threads(&self) -> Option<u32> {
        self.field(20)
    }

    /// Ticks since boot at which it started: with the PID it names the process until the next boot.
    pub fn start_time(&self) -> Option<u64> {
        self.field(22)
    }

    /// By its number in the manual, from the third on.
    pub fn field<T: FromStr>(&self, number: usize) -> Option<T> {
        self.fields.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
    }
}

/// Reads the `stat` of a process. `None`: there is none, or `look` finds nothing in it.
///
/// # Errors
/// When it cannot be found out whether there is one, as where no descriptor is free.
pub fn stat<T>(pid: impl Display, look: impl FnOnce(&Stat<'_>) -> Option<T>) -> io::Result<Option<T>> {
    let mut line = [0; LONGEST_STAT];
    let mut read = || {
        let mut file = std::fs::File::open(format!("/proc/{pid}/stat"))?;
        // The kernel gives all of it at once.
        file.read(&mut line)
    };
    match read() {
        Ok(length) => Ok(line.get(..length).and_then(Stat::parse).and_then(|stat| look(&stat))),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// [`Stat::start_time`] of a process, where "there is none" must not be mistaken for "it cannot be found out".
///
/// # Errors
/// As [`stat`].
pub fn started(pid: impl Display) -> io::Result<Option<u64>> {
    stat(pid, |stat| stat.start_time())
}

/// [`Stat::start_time`] of a process, where it can be found out.
pub fn start_time(pid: impl Display) -> Option<u64> {
    started(pid).ok().flatten()
}

/// The process that made this one, or took it over. `None`: there is no such process.
pub fn parent(pid: i32) -> Option<i32> {
    stat(pid, |stat| stat.parent()).ok().flatten()
}

/// `/proc/PID/status`: lines of a key and what it is.
#[derive(Debug)]
pub struct Status(String);

impl Status {
    /// # Errors
    /// When there is no such process, or it may not be looked at.
    pub fn read(pid: impl Display) -> io::Result<Status> {
        let bytes = std::fs::read(format!("/proc/{pid}/status"))?;
        Ok(Status(String::from_utf8_lossy(&bytes).into_owned()))
    }

    pub fn new(text: String) -> Status {
        Status(text)
    }

    pub fn field(&self, key: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
    }

    /// A set of capabilities or signals, in hexadecimal.
    pub fn mask(&self, key: &str) -> Option<u64> {
        u64::from_str_radix(self.field(key)?, 16).ok()
    }
}

/// The names in a folder of proc that are numbers: processes in `/proc`, threads in `task`, descriptors in `fd`.
///
/// # Errors
/// When there is no such folder, or it may not be looked at.
pub fn numbers<T: FromStr>(folder: impl AsRef<Path>) -> io::Result<Vec<T>> {
    let names = std::fs::read_dir(folder)?.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// The device and the inode that name a namespace of a process; `kind`: `pid`, `user`, `mnt`, …
///
/// # Errors
/// When there is no such process, or it may not be looked at.
pub fn namespace(pid: impl Display, kind: &str) -> io::Result<(u64, u64)> {
    let namespace = std::fs::metadata(format!("/proc/{pid}/ns/{kind}"))?;
    Ok((namespace.dev(), namespace.ino()))
}

/// `/proc/PID/cgroup`: the cgroup that a process is in.
///
/// # Errors
/// When there is no such process, or it may not be looked at.
pub fn membership(pid: impl Display) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup"))
}

/// A value below `/proc/sys/kernel`.
///
/// # Errors
/// When proc is not mounted, or the kernel has no such value.
pub fn kernel(name: &str) -> io::Result<String> {
    Ok(std::fs::read_to_string(format!("/proc/sys/kernel/{name}"))?.trim_end().to_owned())
}

/// Another one after each boot of the machine.
///
/// # Errors
/// When proc is not mounted.
pub fn boot_id() -> io::Result<String> {
    kernel("random/boot_id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let line =
            b"7 (a) \xff) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 9876 1000 100 18446744073709551615\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat.name(), "a) \u{fffd}");
        assert_eq!((stat.state(), stat.parent(), stat.flags()), (Some("S"), Some(1), Some(4_194_560)));
        assert_eq!((stat.threads(), stat.start_time()), (Some(3), Some(9876)));
        assert_eq!((stat.field::<u64>(99), stat.field::<u64>(2)), (None, None));
        for line in [&b""[..], b"7", b"7 (a", b"7 a)", b")("] {
            assert!(Stat::parse(line).is_none(), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn this_process_is_found_and_others_are_not() {
        let own = std::process::id().cast_signed();
        assert_eq!(parent(own), i32::try_from(std::os::unix::process::parent_id()).ok());
        assert!(start_time("self").is_some_and(|ticks| ticks > 0));
        assert_eq!(start_time("self"), start_time(own));
        assert_eq!(started(0).unwrap(), None);
        assert!(numbers("/proc").unwrap().contains(&own) && !numbers("/proc").unwrap().contains(&0));
        assert!(numbers::<i32>("/proc/self/fd").unwrap().contains(&0));
        assert_eq!(namespace("self", "pid").unwrap(), namespace(own, "pid").unwrap());
    }

    #[test]
    fn a_status_has_its_fields() {
        let status = Status::new("Name:\tinit\nVmLck:\t       0 kB\nCapEff:\t000001ffffffffff\n".to_owned());
        assert_eq!((status.field("VmLck"), status.field("Vm")), (Some("0 kB"), None));
        assert_eq!((status.mask("CapEff"), status.mask("Name")), (Some(0x1ff_ffff_ffff), None));
        assert!(Status::read("self").unwrap().mask("CapPrm").is_some());
    }
}
