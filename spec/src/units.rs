//! Numbers with units as operators write them: durations, sizes, shares of a CPU; read and written.

use std::fmt::Write as _;
use std::time::Duration;

/// A limit of time that is none: `none` in a file. As a duration it is longer than any that a file may name, so that
/// whatever counts with it goes on to do so.
pub const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Whether the time is never over.
pub fn is_never(time: Duration) -> bool {
    time >= NEVER
}

/// Writes a limit of time: a duration, or `none`.
pub fn limit_text(time: Duration) -> String {
    if is_never(time) { "none".to_owned() } else { duration_text(time) }
}

/// Units of a duration, longest first, in milliseconds.
const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Units of a size, longest first, in bytes.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("Ti", 1 << 40),
    ("T", 1_000_000_000_000),
    ("Gi", 1 << 30),
    ("G", 1_000_000_000),
    ("Mi", 1 << 20),
    ("M", 1_000_000),
    ("Ki", 1 << 10),
    ("K", 1_000),
    ("", 1),
];

/// Reads `500ms`, `10s`, `5m`, `1h30m`, `2d` or `0`: whole numbers, each with its unit, the longest first.
pub fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0_u64;
    let mut smallest = u64::MAX;
    while !rest.is_empty() {
        let (number, tail) = leading_number(rest)?;
        let letters = tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(letters)?;
        let (_, factor) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
        if *factor >= smallest {
            return None;
        }
        smallest = *factor;
        total = total.checked_add(number.checked_mul(*factor)?)?;
        rest = tail;
    }
    (smallest != u64::MAX).then(|| Duration::from_millis(total))
}

/// Writes a duration so that [`duration`] reads it again (to the millisecond).
pub fn duration_text(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, factor) in DURATION_UNITS {
        let count = rest.checked_div(factor).unwrap_or(0);
        rest = rest.checked_rem(factor).unwrap_or(0);
        if count > 0 {
            // Writing into a String does not fail.
            let _ = write!(text, "{count}{unit}");
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Reads `1024`, `512Ki`, `64Mi`, `1Gi`, `10M` as bytes.
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = leading_number(text)?;
    let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

/// Writes bytes so that [`size`] reads them again, in the largest unit that divides them.
pub fn size_text(bytes: u64) -> String {
    if bytes == 0 {
        return "0".to_owned();
    }
    let whole = |factor: u64| bytes.checked_rem(factor) == Some(0);
    let unit = SIZE_UNITS.iter().filter(|(_, factor)| whole(*factor)).max_by_key(|(_, factor)| *factor);
    let (unit, factor) = unit.copied().unwrap_or(("", 1));
    format!("{}{unit}", bytes.checked_div(factor).unwrap_or(bytes))
}

/// Reads CPUs (`2`, `0.5`) as thousandths.
pub fn cpus(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if text.ends_with('.') || fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let thousandths: u64 = format!("{fraction:0<3}").parse().ok()?;
    number(whole)?.checked_mul(1000)?.checked_add(thousandths)
}

/// Writes thousandths of a CPU so that [`cpus`] reads them again.
pub fn cpus_text(thousandths: u64) -> String {
    let fraction = thousandths.checked_rem(1000).unwrap_or(0);
    let text = format!("{}.{fraction:03}", thousandths / 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A whole number in digits alone.
pub fn number(text: &str) -> Option<u64> {
    match leading_number(text)? {
        (number, "") => Some(number),
        _ => None,
    }
}

fn leading_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1m30s", 90_000),
            ("2d", 172_800_000),
            ("1d1h1m1s1ms", 90_061_001),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "5 sec",
            "s",
            "1.5s",
            "-1s",
            "5S",
            "30m1h",
            "5s5s",
            "1m5",
            "99999999999999999999s",
            "9999999999999999d",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("512Ki", 512 << 10),
            ("64Mi", 64 << 20),
            ("1Gi", 1 << 30),
            ("10M", 10_000_000),
            ("1T", 1_000_000_000_000),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "64MB", "64mi", "1.5Gi", "-1", "Mi", "64 Mi", "99999999Ti"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn cpu_shares() {
        for (text, thousandths) in [("1", 1000), ("0.5", 500), ("0.125", 125), ("16", 16_000), ("2.25", 2250)]
        {
            assert_eq!(cpus(text), Some(thousandths), "{text}");
            assert_eq!(cpus_text(thousandths), text);
        }
        for text in ["", ".", ".5", "1.", "0.1234", "50%", "-1", "1.a", "1.+5"] {
            assert_eq!(cpus(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for millis in [0, 1, 999, 1000, 1001, 90_000, 5_400_000, 172_800_000, u64::MAX / 2] {
            let value = Duration::from_millis(millis);
            assert_eq!(duration(&duration_text(value)), Some(value), "{millis}");
        }
        for bytes in [0, 1, 1000, 1024, 1 << 20, 10_000_000, 3 << 40, u64::MAX] {
            assert_eq!(size(&size_text(bytes)), Some(bytes), "{bytes}");
        }
        assert_eq!(size_text(1 << 20), "1Mi");
        assert_eq!(duration_text(Duration::from_secs(90)), "1m30s");
    }
}
