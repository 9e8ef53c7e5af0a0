//! Reading a line of crontab(5).

use std::ops::RangeInclusive;

use super::read::{SHORT, expression, is_zone, set, wrong};
use super::{Calendar, Run, Set};

/// Short forms of crontab(5) that [`SHORT`] does not have.
const SHORT_OF_CRON: [(&str, &str); 2] = [("midnight", "daily"), ("annually", "yearly")];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// `MINUTE HOUR DAY MONTH WEEKDAY`, and perhaps a time zone.
pub(super) fn line(text: &str) -> Result<Calendar, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (words, zone) = match words.as_slice() {
        [short, zone @ ..] if short.starts_with('@') && zone.len() < 2 => {
            let short = short.trim_start_matches('@');
            let long = SHORT_OF_CRON.iter().find(|(name, _)| *name == short).map_or(short, |(_, long)| long);
            if !SHORT.iter().any(|(name, _)| *name == long && long != "minutely") {
                return Err(wrong(
                    text,
                    "short form of cron",
                    "@hourly, @daily, @weekly, @monthly or @yearly",
                ));
            }
            let zone = zone.first().copied().unwrap_or_default();
            let calendar = expression(&format!("{long} {zone}"))?;
            // The week of cron begins on Sunday.
            let weekdays = if long == "weekly" {
                Set(vec![Run { first: 6, last: 6, step: 1 }])
            } else {
                calendar.weekdays
            };
            return Ok(Calendar { weekdays, ..calendar });
        }
        [minute, hour, day, month, weekday] => ([*minute, *hour, *day, *month, *weekday], None),
        [minute, hour, day, month, weekday, zone] if is_zone(zone) => {
            ([*minute, *hour, *day, *month, *weekday], Some((*zone).to_owned()))
        }
        _ => return Err(wrong(text, "line of cron", "0 3 * * *: minute, hour, day, month, weekday")),
    };
    let [minute, hour, day, month, weekday] = words;
    let of_cron = |text: &str, names: &[&str], from: u16, what: &str, range: RangeInclusive<u16>| {
        let mut plain = text.to_ascii_lowercase();
        for (number, name) in (from..).zip(names) {
            plain = plain.replace(name, &number.to_string());
        }
        // `*/5` is `0/5`, and `1-5` is `1..5`.
        let plain = plain.replace('-', "..").replace("*/", &format!("{}..{}/", range.start(), range.end()));
        set(&plain, what, range)
            .map_err(|_| wrong(text, &format!("{what} of cron"), "*, 5, 1-5, 1,3 or */15"))
    };
    let sundays = of_cron(weekday, &DAYS, 0, "weekday", 0..=7)?;
    // From Monday on, as in a calendar.
    let weekdays = match sundays.0.is_empty() {
        true => sundays,
        false => Set((0..7u16)
            .filter(|day| sundays.has(day.saturating_add(1)) || (*day == 6 && sundays.has(0)))
            .map(|day| Run { first: day, last: day, step: 1 })
            .collect()),
    };
    Ok(Calendar {
        // A `*` at the begin of one of both means that both must hold.
        either: !day.starts_with('*') && !weekday.starts_with('*'),
        weekdays,
        years: Set::default(),
        months: of_cron(month, &MONTHS, 1, "month", 1..=12)?,
        days: of_cron(day, &[], 1, "day", 1..=31)?,
        from_end: false,
        hours: of_cron(hour, &[], 0, "hour", 0..=23)?,
        minutes: of_cron(minute, &[], 0, "minute", 0..=59)?,
        seconds: Set(vec![Run { first: 0, last: 0, step: 1 }]),
        zone,
    })
}
