//! Values of keys: booleans, time spans, sizes, shares.

use std::time::Duration;

/// The longest duration of a service file; what is longer counts as no limit.
pub const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Units of a time span in microseconds.
const TIME_UNITS: [(&str, u64); 31] = [
    ("us", 1),
    ("usec", 1),
    ("\u{b5}s", 1),
    ("\u{3bc}s", 1),
    ("ms", 1_000),
    ("msec", 1_000),
    ("", 1_000_000),
    ("s", 1_000_000),
    ("sec", 1_000_000),
    ("second", 1_000_000),
    ("seconds", 1_000_000),
    ("m", 60_000_000),
    ("min", 60_000_000),
    ("minute", 60_000_000),
    ("minutes", 60_000_000),
    ("h", 3_600_000_000),
    ("hr", 3_600_000_000),
    ("hour", 3_600_000_000),
    ("hours", 3_600_000_000),
    ("d", 86_400_000_000),
    ("day", 86_400_000_000),
    ("days", 86_400_000_000),
    ("w", 604_800_000_000),
    ("week", 604_800_000_000),
    ("weeks", 604_800_000_000),
    ("M", 2_629_800_000_000),
    ("month", 2_629_800_000_000),
    ("months", 2_629_800_000_000),
    ("y", 31_557_600_000_000),
    ("year", 31_557_600_000_000),
    ("years", 31_557_600_000_000),
];

/// `yes`, `1`, `on`, …
pub fn boolean(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(&["1", "yes", "y", "true", "t", "on"]) {
        return Some(true);
    }
    is(&["0", "no", "n", "false", "f", "off"]).then_some(false)
}

/// A time span, such as `5min 20s`, `1.5h` or `90`; `None` inside: `infinity`, or longer than a service file can say. Rounded
/// up to a millisecond.
pub fn time_span(text: &str) -> Option<Option<Duration>> {
    span(text, 1_000_000).map(|micros| {
        let duration = Duration::from_millis(micros?.div_ceil(1_000));
        (duration <= LONGEST).then_some(duration)
    })
}

/// The same in microseconds; a number without a unit counts `bare` of them.
pub fn span(text: &str, bare: u64) -> Option<Option<u64>> {
    let text = text.trim();
    if text == "infinity" {
        return Some(None);
    }
    let mut total = 0_u64;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, tail) = decimal(rest)?;
        let tail = tail.trim_start();
        let length = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(length)?;
        let (_, factor) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
        let factor = if unit.is_empty() { bare } else { *factor };
        total = total.checked_add(number.times(factor)?)?;
        rest = tail.trim_start();
    }
    Some(Some(total))
}

/// The operator of a condition and the number behind it. `>=` where there is none.
pub fn comparison(text: &str) -> (&'static str, &str) {
    let operators = [">=", "<=", "!=", ">", "<", "="];
    let found = operators.iter().find_map(|operator| Some((*operator, text.strip_prefix(operator)?)));
    let (operator, number) = found.unwrap_or((">=", text));
    (operator, number.trim())
}

/// Bytes, with `K`, `M`, `G`, `T`, `P`, `E` as powers of 1024; `None` inside: `infinity`.
pub fn size(text: &str) -> Option<Option<u64>> {
    if text == "infinity" {
        return Some(None);
    }
    let (number, unit) = decimal(text)?;
    let power = match unit.trim_start() {
        "" | "B" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return None,
    };
    number.times(1024_u64.checked_pow(power)?).map(Some)
}

/// `20%` or `12.5%`, in tenths of a percent.
pub fn permille(text: &str) -> Option<u64> {
    let (number, rest) = decimal(text)?;
    (rest.trim_start() == "%").then(|| number.times(10))?
}

/// A number with a part after the point, which has six digits at most.
struct Decimal {
    whole: u64,
    millionths: u64,
}

impl Decimal {
    fn times(&self, factor: u64) -> Option<u64> {
        let part = u128::from(self.millionths).checked_mul(u128::from(factor))?.checked_div(1_000_000)?;
        self.whole.checked_mul(factor)?.checked_add(u64::try_from(part).ok()?)
    }
}

fn decimal(text: &str) -> Option<(Decimal, &str)> {
    let end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at_checked(end(text))?;
    let (part, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at_checked(end(rest)).filter(|(part, _)| !part.is_empty())?,
        None => ("", rest),
    };
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let digits: String = part.chars().chain("000000".chars()).take(6).collect();
    let whole = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    Some((Decimal { whole, millionths: digits.parse().ok()? }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans() {
        for (text, millis) in [
            ("5min 20s", 320_000),
            ("90", 90_000),
            ("2h30min", 9_000_000),
            ("1.5s", 1_500),
            ("1 day", 86_400_000),
            ("500us", 1),
            ("0", 0),
            ("100ms 1", 1_100),
        ] {
            assert_eq!(time_span(text), Some(Some(Duration::from_millis(millis))), "{text}");
        }
        assert_eq!(time_span("infinity"), Some(None));
        assert_eq!(time_span("2y"), Some(None));
        assert_eq!(span("7", 1), Some(Some(7)));
        for text in ["", "x", "5 parsecs", "-1", "1..2", "99999999999999999999", "99999999999999 y"] {
            assert_eq!(time_span(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_and_shares() {
        assert_eq!(size("1.5G"), Some(Some(3 << 29)));
        assert_eq!(size("64K"), Some(Some(65_536)));
        assert_eq!(size("4096"), Some(Some(4096)));
        assert_eq!(size("infinity"), Some(None));
        for text in ["", "G", "1 X", "10%", "16E", "1k"] {
            assert_eq!(size(text), None, "{text}");
        }
        assert_eq!(permille("20%"), Some(200));
        assert_eq!(permille("12.5%"), Some(125));
        assert_eq!(permille("20"), None);
    }

    #[test]
    fn booleans() {
        assert_eq!(boolean("Yes"), Some(true));
        assert_eq!(boolean("off"), Some(false));
        assert_eq!(boolean("maybe"), None);
    }
}
