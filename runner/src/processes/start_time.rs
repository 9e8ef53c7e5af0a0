//! What names a process, and a life of the host, for good.

use std::fs;

/// Ticks since boot at which the process started, field 22 of `/proc/PID/stat`.
pub(super) fn start_time(pid: &str) -> Option<u64> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The second field is the program's name in brackets and may hold anything, brackets too.
fn parse(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
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
        assert!(start_time("self").is_some_and(|ticks| ticks > 0));
        assert_eq!(start_time("0"), None);
    }

    #[test]
    fn a_life_is_one_word() {
        assert_eq!(life(), life());
        assert!(!life().contains([':', ' ', '\n']));
    }
}
