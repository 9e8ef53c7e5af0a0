//! Times and durations as people and scripts read them, and as operators write them.

use std::time::{Duration, SystemTime};

use prost_types::Timestamp;

use crate::failure::Failure;

/// `2026-11-21T09:48:05.123Z`: UTC with milliseconds, the form of all JSON and of the event list.
pub fn rfc3339(time: &Timestamp) -> String {
    let millis = time.nanos.clamp(0, 999_999_999) / 1_000_000;
    let second = Timestamp { seconds: time.seconds, nanos: 0 }.to_string();
    format!("{}.{millis:03}Z", second.trim_end_matches('Z'))
}

/// `09:48:05.123` of today, `11-21 09:48 ` of another day: UTC, equally wide.
pub fn short(time: &Timestamp, now: SystemTime) -> String {
    let whole = rfc3339(time);
    let (date, clock) = (whole.get(..10).unwrap_or_default(), whole.get(11..23).unwrap_or_default());
    if rfc3339(&now.into()).starts_with(date) {
        clock.to_owned()
    } else {
        format!("{} {} ", date.get(5..).unwrap_or_default(), clock.get(..5).unwrap_or_default())
    }
}

/// `09:48:05`: the time of the day in UTC.
pub fn clock(time: &Timestamp) -> String {
    let second = time.seconds.rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// How long ago that was; zero where the host's clock is ahead of ours.
pub fn ago(time: &Timestamp, now: SystemTime) -> Duration {
    SystemTime::try_from(*time).ok().and_then(|then| now.duration_since(then).ok()).unwrap_or_default()
}

/// How long that is, or how long ago that was, by the host's own clock. A host with an earlier release tells a time alone.
pub fn age(
    shown: &Option<prost_types::Duration>,
    since: &Option<Timestamp>,
    now: SystemTime,
) -> Option<Duration> {
    shown.as_ref().map(duration).or_else(|| since.as_ref().map(|since| ago(since, now)))
}

/// How long it is until then; zero once it is over.
pub fn left(time: &Timestamp, now: SystemTime) -> Duration {
    SystemTime::try_from(*time).ok().and_then(|then| then.duration_since(now).ok()).unwrap_or_default()
}

/// `0s`, `59s`, `3m12s`, `2h5m`, `3d4h`: two units at most.
pub fn relative(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    if days > 0 {
        pair(days, "d", hours % 24, "h")
    } else if hours > 0 {
        pair(hours, "h", minutes % 60, "m")
    } else if minutes > 0 {
        pair(minutes, "m", seconds % 60, "s")
    } else {
        format!("{seconds}s")
    }
}

/// How long something has taken so far: `3 s`, `3m12s`.
pub fn passed(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        _ => relative(duration),
    }
}

/// A measured duration: `0.42 ms`, `812 ms`, `1.234 s`, `3m12s`.
pub fn measured(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    if millis < 10.0 {
        format!("{millis:.2} ms")
    } else if millis < 999.5 {
        format!("{millis:.0} ms")
    } else if millis < 100_000.0 {
        format!("{:.3} s", millis / 1000.0)
    } else {
        relative(duration)
    }
}

/// Milliseconds with microseconds behind the point, for JSON.
pub fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// A duration off the wire; negative ones do not occur and count as zero.
pub fn duration(wire: &prost_types::Duration) -> Duration {
    Duration::try_from(*wire).unwrap_or_default()
}

/// The same; zero where there is none.
pub fn span(wire: &Option<prost_types::Duration>) -> Duration {
    wire.as_ref().map(duration).unwrap_or_default()
}

/// Seconds since 1970.
pub fn seconds(time: &Timestamp) -> f64 {
    time.seconds as f64 + f64::from(time.nanos) / 1e9
}

/// [`measured`] of milliseconds; what is no span of time counts as zero.
pub fn measured_millis(millis: f64) -> String {
    measured(Duration::try_from_secs_f64(millis / 1000.0).unwrap_or_default())
}

/// A duration for the wire.
pub fn to_wire(duration: Duration) -> prost_types::Duration {
    duration.try_into().unwrap_or_default()
}

/// Reads `500ms`, `30s`, `1m30s`, `1.5h`, `2d`.
///
/// # Errors
/// A sentence that names what was found and what would be right.
pub fn parse(text: &str) -> Result<Duration, Failure> {
    let wrong =
        |what: String| Failure::Usage(format!("{what}; write a duration like 500ms, 30s, 1m30s or 2h"));
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong("nothing is there".to_owned()));
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let value: f64 =
            number.parse().map_err(|_| wrong(format!("{rest:?} does not begin with a number")))?;
        total += value
            * match unit {
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                "" => return Err(wrong(format!("{number:?} has no unit"))),
                _ => return Err(wrong(format!("{unit:?} is not a unit"))),
            };
        rest = tail;
    }
    Duration::try_from_secs_f64(total).map_err(|_| wrong(format!("{text:?} is too long")))
}

/// Like [`parse`]; a number alone counts as seconds, as in `timeout 30`.
///
/// # Errors
/// As [`parse`].
pub fn parse_timeout(text: &str) -> Result<Duration, Failure> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(u64::from(seconds))),
        Err(_) => parse(text),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn stamp(seconds: i64, nanos: i32) -> String {
        rfc3339(&Timestamp { seconds, nanos })
    }

    #[test]
    fn times_in_rfc3339() {
        assert_eq!(stamp(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(stamp(951_782_399, 999_999_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(stamp(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(stamp(951_868_800, 0), "2000-03-01T00:00:00.000Z");
        assert_eq!(stamp(1_795_254_485, 123_456_789), "2026-11-21T09:48:05.123Z");
        assert_eq!(stamp(4_107_542_399, 0), "2100-02-28T23:59:59.000Z");
        assert_eq!(stamp(4_107_542_400, 0), "2100-03-01T00:00:00.000Z", "2100 is no leap year");
        assert_eq!(stamp(-1, 0), "1969-12-31T23:59:59.000Z");
        assert_eq!(clock(&Timestamp { seconds: -1, nanos: 0 }), "23:59:59");
        assert_eq!(clock(&Timestamp { seconds: 1_795_254_485, nanos: 5 }), "09:48:05");
    }

    #[test]
    fn a_short_time_tells_today_from_another_day() {
        let short = |seconds| {
            let now = UNIX_EPOCH + Duration::from_secs(1_795_254_485);
            short(&Timestamp { seconds, nanos: 123_456_789 }, now)
        };
        assert_eq!(short(1_795_254_400), "09:46:40.123");
        assert_eq!(short(1_795_132_800), "11-20 00:00 ");
        assert_eq!(short(1_795_254_485 + 86_400), "11-22 09:48 ");
    }

    #[test]
    fn relative_times_have_two_units_at_most() {
        let show = |seconds| relative(Duration::from_secs(seconds));
        assert_eq!(
            [0, 59, 60, 192, 3600, 7500, 86_400, 273_600].map(show),
            ["0s", "59s", "1m", "3m12s", "1h", "2h5m", "1d", "3d4h"]
        );
    }

    #[test]
    fn what_has_passed_is_told_in_seconds() {
        assert_eq!(
            [3, 59, 60, 192].map(|seconds| passed(Duration::from_secs(seconds))),
            ["3 s", "59 s", "1m", "3m12s"]
        );
    }

    #[test]
    fn a_clock_that_is_behind_makes_zero() {
        let now = UNIX_EPOCH + Duration::from_secs(100);
        assert_eq!(ago(&Timestamp { seconds: 90, nanos: 500_000_000 }, now), Duration::from_millis(9500));
        assert_eq!(ago(&Timestamp { seconds: 200, nanos: 0 }, now), Duration::ZERO);
    }

    #[test]
    fn an_age_is_what_the_host_says_whatever_its_clock_shows() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_254_485);
        let since = Some(Timestamp { seconds: 3, nanos: 0 });
        let shown = Some(to_wire(Duration::from_secs(192)));
        assert_eq!(age(&shown, &since, now), Some(Duration::from_secs(192)));
        assert_eq!(age(&None, &since, now), Some(Duration::from_secs(1_795_254_482)));
        assert_eq!(age(&None, &None, now), None);
    }

    #[test]
    fn measured_durations() {
        let show = |micros| measured(Duration::from_micros(micros));
        assert_eq!(
            [0, 420, 9_990, 10_400, 812_000, 999_600, 1_234_567, 192_000_000].map(show),
            ["0.00 ms", "0.42 ms", "9.99 ms", "10 ms", "812 ms", "1.000 s", "1.235 s", "3m12s"]
        );
        assert_eq!(millis(Duration::from_nanos(1_234_567)), 1.235);
    }

    #[test]
    fn durations_as_operators_write_them() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("2d"), Ok(Duration::from_secs(172_800)));
        for (text, said) in [
            ("30", "\"30\" has no unit; write a duration like 500ms, 30s, 1m30s or 2h"),
            ("5 weeks", "unit"),
            ("fast", "\"fast\" does not begin with a number"),
        ] {
            assert!(parse(text).unwrap_err().to_string().contains(said), "{text}");
        }
        assert!(parse("").is_err());
        assert!(parse("1e99d").is_err());
        assert_eq!(parse_timeout("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_timeout("2m"), Ok(Duration::from_secs(120)));
    }

    #[test]
    fn durations_keep_their_value_on_the_wire() {
        let long = Duration::new(90, 5_000_000);
        assert_eq!(duration(&to_wire(long)), long);
        assert_eq!(duration(&prost_types::Duration { seconds: -5, nanos: -1 }), Duration::ZERO);
    }
}
