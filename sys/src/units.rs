//! Durations and sizes for people. The parser writes the values of a configuration file in its own units.

use std::fmt::Write as _;
use std::time::Duration;

/// `120 ms`, `1.2 s`, `5m`, `1h30m`.
pub fn duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis < 1000 {
        return format!("{millis} ms");
    }
    let seconds = duration.as_secs();
    if seconds < 60 {
        let tenths = duration.subsec_millis() / 100;
        return if tenths == 0 { format!("{seconds} s") } else { format!("{seconds}.{tenths} s") };
    }
    let mut text = String::new();
    let mut rest = seconds;
    for (unit, size) in [("d", 86_400_u64), ("h", 3600), ("m", 60), ("s", 1)] {
        let count = rest.checked_div(size).unwrap_or_default();
        rest = rest.checked_rem(size).unwrap_or_default();
        if count > 0 {
            // Writing into a String does not fail.
            let _ = write!(text, "{count}{unit}");
        }
    }
    text
}

const SIZES: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

/// `40.1 MiB`.
pub fn size(bytes: u64) -> String {
    match unit(bytes) {
        Some((size, name)) => format!("{} {name}", tenths(bytes, size)),
        None => format!("{bytes} B"),
    }
}

/// `12.3 of 40.1 MiB`.
pub fn size_of(done: u64, total: u64) -> String {
    match unit(total) {
        Some((size, name)) => format!("{} of {} {name}", tenths(done, size), tenths(total, size)),
        None => format!("{done} of {total} B"),
    }
}

fn unit(bytes: u64) -> Option<(u64, &'static str)> {
    SIZES.into_iter().find(|(size, _)| bytes >= *size)
}

/// With one digit behind the point, rounded down: what is not done is not reported as done.
fn tenths(bytes: u64, unit: u64) -> String {
    let whole = bytes.checked_div(unit).unwrap_or_default();
    let rest = bytes.checked_rem(unit).unwrap_or_default();
    format!("{whole}.{}", rest.saturating_mul(10).checked_div(unit).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        for (millis, text) in [
            (0, "0 ms"),
            (120, "120 ms"),
            (1200, "1.2 s"),
            (2000, "2 s"),
            (59_999, "59.9 s"),
            (60_000, "1m"),
            (300_000, "5m"),
            (5_400_000, "1h30m"),
            (90_061_000, "1d1h1m1s"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn sizes_are_rounded_down() {
        assert_eq!(size_of(1023, 1024), "0.9 of 1.0 KiB");
        assert_eq!(size_of(1, 1000), "1 of 1000 B");
        assert_eq!(size(u64::MAX), "17179869183.9 GiB");
    }
}
