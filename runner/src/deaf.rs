//! Why a stop signal did not end a process: what the kernel says of how it takes that signal.

use kelson_sys::process::Status;

/// How a process takes a signal that is to end it, and does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deaf {
    /// It has asked the kernel to drop it.
    Ignores,
    /// It keeps it waiting.
    Blocks,
    /// It has no handler, and it is the first process of its PID namespace: the kernel drops such a signal.
    FirstOfNamespace,
}

impl Deaf {
    /// Of a process that lives, by its number here. `None`: the signal reaches it. Reads one file that the kernel makes
    /// without waiting for the process or for a disk.
    pub(crate) fn to(pid: i32, signal: i32) -> Option<Deaf> {
        Deaf::of_status(&Status::read(pid).ok()?, signal)
    }

    fn of_status(status: &Status, signal: i32) -> Option<Deaf> {
        let bit = 1_u64.checked_shl(u32::try_from(signal).ok()?.checked_sub(1)?)?;
        let has = |key: &str| status.mask(key).is_some_and(|mask| mask & bit != 0);
        // Its numbers, from this namespace to the innermost one.
        let numbers = status.field("NSpid").unwrap_or_default();
        let is_first = numbers.split_whitespace().skip(1).last() == Some("1");
        if has("SigIgn") {
            Some(Deaf::Ignores)
        } else if has("SigBlk") {
            Some(Deaf::Blocks)
        } else if !has("SigCgt") && is_first {
            Some(Deaf::FirstOfNamespace)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_signal_is_understood() {
        let of = |numbers: &str, blocked: &str, ignored: &str, caught: &str, signal| {
            let status = format!(
                "Name:\tweb\nNSpid:\t{numbers}\nSigBlk:\t{blocked}\nSigIgn:\t{ignored}\nSigCgt:\t{caught}\n"
            );
            Deaf::of_status(&Status::new(status), signal)
        };
        let (none, term) = ("0000000000000000", "0000000000004000");
        assert_eq!(of("812", none, none, none, libc::SIGTERM), None, "it ends by it");
        assert_eq!(of("812", none, none, term, libc::SIGTERM), None, "it only takes its time");
        assert_eq!(of("812", none, term, none, libc::SIGTERM), Some(Deaf::Ignores));
        assert_eq!(of("812", term, none, term, libc::SIGTERM), Some(Deaf::Blocks));
        assert_eq!(of("812\t1", none, none, none, libc::SIGTERM), Some(Deaf::FirstOfNamespace));
        assert_eq!(of("812\t1", none, none, term, libc::SIGTERM), None);
        assert_eq!(of("812\t1", none, none, term, libc::SIGINT), Some(Deaf::FirstOfNamespace));
        assert_eq!(of("812\t7", none, none, none, libc::SIGTERM), None);
        assert_eq!(of("1", none, none, none, libc::SIGTERM), None, "its namespace is this one");
        for signal in [0, -1, 65] {
            assert_eq!(of("812", term, term, none, signal), None);
        }
    }

    #[test]
    fn a_process_that_ignores_a_signal_is_deaf_to_it() {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "trap '' TERM; echo; read x"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(Deaf::to(pid, libc::SIGTERM), Some(Deaf::Ignores));
        assert_eq!(Deaf::to(pid, libc::SIGUSR1), None);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(Deaf::to(pid, libc::SIGTERM), None);
    }
}
