//! Which run of a service a line is of.
//!
//! Runs are counted from the start of the host, so their numbers come again after a reboot, and with a host in a
//! container each time that this is started. A second number tells those apart. In a file both stand behind `F` or `P`,
//! as a tag of the format that the container runtimes of Kubernetes write: `F:7:3fa9`.

use std::io::Write as _;

use kelson_sys::process;

/// Longer tags are none of ours.
pub const LONGEST_TAG: usize = 32;

/// A run of a service; not known where the number is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run {
    pub number: u32,
    /// The start of the host that the number counts from, see [`boot`].
    pub boot: u16,
}

impl Run {
    /// The run of this number, in this boot.
    pub fn new(number: u64, boot: u16) -> Run {
        Run { number: u32::try_from(number).unwrap_or(u32::MAX), boot }
    }

    /// False for lines of logd itself, and those that an older release wrote.
    pub fn is_known(self) -> bool {
        self.number > 0
    }

    /// Appends it as it stands in a file, behind `F` or `P`.
    pub fn append(self, out: &mut Vec<u8>) {
        if self.is_known() {
            // Writing to a Vec does not fail.
            let _ = write!(out, ":{}:{:04x}", self.number, self.boot);
        }
    }

    /// Reads what stands behind `F` or `P`. Tags that are not known are passed over: a later release may write some.
    pub fn parse(tags: &[u8]) -> Run {
        let read = || {
            let mut words = std::str::from_utf8(tags).ok()?.strip_prefix(':')?.split(':');
            let number = words.next()?.parse().ok()?;
            let boot = u16::from_str_radix(words.next()?, 16).ok()?;
            Some(Run { number, boot }).filter(|run| run.is_known())
        };
        read().unwrap_or_default()
    }
}

/// A number for this start of the host: the same for each logd of it, by all odds another one for the next start. 0 where
/// `/proc` does not tell.
pub fn boot() -> u16 {
    let read = || {
        let boot = process::boot_id().ok()? + "\n";
        // PID 1 of the host, which is not that of the machine in a container. getppid(2) is not among our system calls.
        let parent = process::stat("self", |stat| stat.parent()).ok()??;
        let began = process::start_time(parent)?.to_string();
        Some(fold(boot.as_bytes().iter().chain(began.as_bytes())))
    };
    read().unwrap_or_default()
}

/// FNV-1a, folded to 16 bits; never 0.
fn fold<'a>(bytes: impl Iterator<Item = &'a u8>) -> u16 {
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let halves = [hash, hash >> 16, hash >> 32, hash >> 48];
    let folded = halves.iter().fold(0, |all, part| all ^ (part & 0xffff));
    u16::try_from(folded).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_as_it_was_written_and_other_tags_are_no_run() {
        for run in [Run::new(1, 0), Run::new(7, 0x3fa9), Run::new(u64::MAX, u16::MAX)] {
            let mut tag = Vec::new();
            run.append(&mut tag);
            assert!(tag.len() < LONGEST_TAG, "{}", tag.escape_ascii());
            assert_eq!(Run::parse(&tag), run);
            tag.extend(b":more");
            assert_eq!(Run::parse(&tag), run, "a later release may write more");
        }
        let mut none = Vec::new();
        Run::default().append(&mut none);
        assert!(none.is_empty());
        for tag in [&b""[..], b":", b":7", b"7:3fa9", b":x:3fa9", b":7:xyz", b":0:3fa9", b":7:13fa9", b"\xff"]
        {
            assert_eq!(Run::parse(tag), Run::default(), "{}", tag.escape_ascii());
        }
    }

    #[test]
    fn each_logd_of_a_host_finds_the_same_number() {
        assert_ne!(boot(), 0);
        assert_eq!(boot(), boot());
        assert_ne!(fold(b"one".iter()), fold(b"two".iter()));
    }
}
