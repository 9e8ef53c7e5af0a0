//! Lines and events that bear numbers: which are missing, and which came again.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The mistakes in numbers that are to come once each and in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    pub seen: u64,
    pub missing: u64,
    /// Twice, or after a later one.
    pub again: u64,
}

impl Ledger {
    /// Numbers from `first` on, of which the last is one of `last`.
    pub fn of(numbers: impl IntoIterator<Item = u64>, first: u64, last: RangeInclusive<u64>) -> Ledger {
        let (mut ledger, mut next) = (Ledger::default(), first);
        for number in numbers {
            ledger.seen += 1;
            if number < next {
                ledger.again += 1;
            } else {
                ledger.missing += number - next;
                next = number + 1;
            }
        }
        ledger.missing += (last.start() + 1).saturating_sub(next);
        // A number that nobody has written cannot be right either.
        ledger.again += next.saturating_sub(last.end().saturating_add(1));
        ledger
    }

    pub fn wrong(self) -> u64 {
        self.missing + self.again
    }
}

/// The number after this word in a line, where there is one.
pub fn number_after(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.1.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The whole log of a service, oldest line first, from its file and those that were rotated away.
pub fn log(folder: &Path, name: &str) -> String {
    let file = |number: u32| -> PathBuf {
        let suffix = if number == 0 { String::new() } else { format!(".{number}") };
        folder.join(format!("{name}.log{suffix}"))
    };
    let rotated = (1..).take_while(|number| file(*number).exists()).count();
    let numbers = (0..=u32::try_from(rotated).unwrap_or(u32::MAX)).rev();
    let parts = numbers.map(|number| fs::read(file(number)).unwrap_or_default());
    parts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[u64], last: RangeInclusive<u64>) -> (u64, u64) {
        let ledger = Ledger::of(numbers.iter().copied(), 1, last);
        assert_eq!(ledger.seen, numbers.len() as u64);
        (ledger.missing, ledger.again)
    }

    #[test]
    fn all_of_them_once_and_in_order_is_right() {
        assert_eq!(of(&[1, 2, 3], 3..=3), (0, 0));
        // The service may have been ended between the line and its note of it.
        assert_eq!(of(&[1, 2, 3, 4], 3..=4), (0, 0));
        assert_eq!(of(&[], 0..=0), (0, 0));
    }

    #[test]
    fn what_is_missing_is_counted_wherever_it_is() {
        assert_eq!(of(&[2, 3], 3..=4), (1, 0));
        assert_eq!(of(&[1, 4], 4..=4), (2, 0));
        assert_eq!(of(&[1, 2], 5..=6), (3, 0));
        assert_eq!(of(&[], 7..=8), (7, 0));
    }

    #[test]
    fn what_comes_again_is_counted_and_what_is_out_of_order_too() {
        assert_eq!(of(&[1, 2, 2, 3], 3..=3), (0, 1));
        assert_eq!(of(&[1, 2, 3, 1, 2, 3], 3..=3), (0, 3));
        assert_eq!(of(&[2, 1, 3], 3..=3), (1, 1));
        assert_eq!(of(&[1, 2, 3, 4, 5], 3..=4), (0, 1));
    }

    #[test]
    fn a_number_is_found_in_a_line() {
        let line = "2026-11-21T09:29:15.123456789Z stdout F beat 17 .....";
        assert_eq!(number_after(line, " beat "), Some(17));
        assert_eq!(number_after("tick 3", "tick "), Some(3));
        assert_eq!(number_after("2026 note F 12 lines were lost here", " beat "), None);
        assert_eq!(number_after("beat ", "beat "), None);
    }

    #[test]
    fn a_log_is_read_from_its_oldest_file_on() {
        let folder = crate::host::new_dir();
        for (name, text) in
            [("web.log", "c\n"), ("web.log.1", "b\n"), ("web.log.2", "a\n"), ("we.log", "x\n")]
        {
            fs::write(folder.join(name), text).expect("the test's folder is writable");
        }
        assert_eq!(log(&folder, "web"), "a\nb\nc\n");
        assert_eq!(log(&folder, "none"), "");
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
