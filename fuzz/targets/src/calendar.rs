//! Expressions of times of the calendar, and lines of cron.

use kelson_spec::calendar::{CRON, Calendar, LocalTime};

/// Read as both. The times of a sound one follow each other.
pub fn expression(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for text in [text.to_string(), format!("{CRON}{text}")] {
        let calendar = match Calendar::read(&text) {
            Ok(calendar) => calendar,
            Err(why) => {
                let is_short = why.len() < 1024 && !why.is_empty();
                assert!(is_short && !why.contains(|letter: char| letter.is_control()), "{why:?}");
                continue;
            }
        };
        let mut at = LocalTime::of_day(2023, 12, 31);
        for _ in 0..4 {
            let Some(next) = calendar.next(at) else { break };
            assert!(next > at, "{text:?}: {next:?} after {at:?}");
            at = next;
        }
    }
}
