//! Reading an expression.

use std::ops::RangeInclusive;

use super::{Calendar, Run, Set, YEARS};

const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
pub(super) const SHORT: [(&str, &str); 10] = [
    ("minutely", "*-*-* *:*:00"),
    ("hourly", "*-*-* *:00:00"),
    ("daily", "*-*-* 00:00:00"),
    ("weekly", "Mon *-*-* 00:00:00"),
    ("monthly", "*-*-01 00:00:00"),
    ("quarterly", "*-01,04,07,10-01 00:00:00"),
    ("semiannually", "*-01,07-01 00:00:00"),
    ("biannually", "*-01,07-01 00:00:00"),
    ("yearly", "*-01-01 00:00:00"),
    ("annually", "*-01-01 00:00:00"),
];

/// Reads an expression of systemd.time(7).
pub(super) fn expression(text: &str) -> Result<Calendar, String> {
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    let first = words.first().copied().unwrap_or_default();
    if let Some((_, long)) = SHORT.iter().find(|(short, _)| short.eq_ignore_ascii_case(first)) {
        words.splice(0..1, long.split(' '));
    }
    let mut words = words.into_iter().peekable();
    let weekdays = words.next_if(|word| is_of_weekdays(word)).map(weekdays).transpose()?;
    let date = words.next_if(|word| is_of_date(word));
    let time = words.next_if(|word| word.contains(':'));
    let zone = words.next_if(|word| is_zone(word)).map(str::to_owned);
    if let Some(word) = words.next() {
        return Err(format!(
            "has \"{word}\", which is no weekday, date (*-*-01), time (03:00) or time zone in this place"
        ));
    }
    if weekdays.is_none() && date.is_none() && time.is_none() {
        return Err(
            "names no weekday, date or time; write such as 03:00, Mon *-*-* 12:00 or daily".to_owned()
        );
    }
    let (years, months, days, from_end) = date.map_or(Ok(Default::default()), read_date)?;
    let [hours, minutes, seconds] = time.map_or_else(|| read_time("0:0"), read_time)?;
    let weekdays = weekdays.unwrap_or_default();
    Ok(Calendar { weekdays, years, months, days, from_end, hours, minutes, seconds, either: false, zone })
}

fn is_of_weekdays(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && word.split([',', '.']).all(|part| part.is_empty() || number_of_weekday(part).is_some())
}

fn is_of_date(word: &str) -> bool {
    !word.contains(':')
        && word.contains(['-', '~'])
        && !word.starts_with(|letter: char| letter.is_ascii_alphabetic())
}

/// A name of a zone, whose file is looked for by it.
pub(super) fn is_zone(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte))
}

fn number_of_weekday(word: &str) -> Option<u16> {
    let word = word.to_ascii_lowercase();
    let is = |day: &str| day == word || day.get(..3) == Some(&word);
    WEEKDAYS.iter().position(|day| is(day)).and_then(|place| u16::try_from(place).ok())
}

fn weekdays(word: &str) -> Result<Set, String> {
    let day = |name: &str| {
        number_of_weekday(name)
            .ok_or_else(|| format!("has \"{word}\"; write weekdays such as Mon,Wed or Mon..Fri"))
    };
    let mut runs = Vec::new();
    for part in word.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (first, last) = (day(first)?, day(last)?);
        if first > last {
            return Err(format!("has \"{part}\", which runs over the end of the week; write Sat,Sun,Mon"));
        }
        runs.push(Run { first, last, step: 1 });
    }
    Ok(Set(runs))
}

fn read_date(word: &str) -> Result<(Set, Set, Set, bool), String> {
    let from_end = word.contains('~');
    let Some((months, days)) = word.rsplit_once(if from_end { '~' } else { '-' }) else {
        return Err(wrong(word, "date", "2026-12-24, *-*-01 or 12-24"));
    };
    let (years, months) = months.split_once('-').unwrap_or(("*", months));
    let mut years = set(years, "year", 0..=*YEARS.end())?;
    for run in &mut years.0 {
        (run.first, run.last) = (whole_year(run.first), whole_year(run.last));
    }
    if years.0.iter().any(|run| !YEARS.contains(&run.first)) {
        return Err(format!("has the year of \"{word}\"; years are {} to {}", YEARS.start(), YEARS.end()));
    }
    let days = match from_end {
        true => days_before_the_end(days)?,
        false => set(days, "day", 1..=31)?,
    };
    Ok((years, set(months, "month", 1..=12)?, days, from_end))
}

/// As [`set`], but with a step the numbers fall: `7/2` is the seventh day before the end, the fifth, the third, the last.
fn days_before_the_end(text: &str) -> Result<Set, String> {
    let one = |text: &str| -> Result<Option<u16>, String> {
        let days = set(text, "day", 1..=31)?;
        Ok(days.0.first().filter(|run| run.first == run.last).map(|run| run.last))
    };
    let mut runs = Vec::new();
    for part in text.split(',') {
        let Some((first, step)) = part.split_once('/').filter(|(first, _)| *first != "*") else {
            runs.extend(set(part, "day", 1..=31)?.0);
            continue;
        };
        let (Some(last), Some(step)) = (one(first)?, one(step)?) else {
            return Err(wrong(part, "day", "7/1"));
        };
        let first = last.checked_sub(1).and_then(|over| over.checked_rem(step)).unwrap_or_default();
        runs.push(Run { first: first.saturating_add(1), last, step });
    }
    Ok(Set(runs))
}

/// As systemd has it.
fn whole_year(year: u16) -> u16 {
    match year {
        0..70 => year.saturating_add(2000),
        70..100 => year.saturating_add(1900),
        _ => year,
    }
}

fn read_time(word: &str) -> Result<[Set; 3], String> {
    let mut parts = word.split(':');
    let (hours, minutes) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let seconds = parts.next().unwrap_or("0");
    if parts.next().is_some() {
        return Err(wrong(word, "time", "03:00 or 03:00:30"));
    }
    // The only `*` with a step that systemd takes.
    let seconds = if seconds.starts_with("*/") { seconds.replacen('*', "0", 1) } else { seconds.to_owned() };
    Ok([set(hours, "hour", 0..=23)?, set(minutes, "minute", 0..=59)?, set(&seconds, "second", 0..=59)?])
}

pub(super) fn wrong(word: &str, what: &str, right: &str) -> String {
    format!("has \"{word}\", which is no {what}; write such as {right}")
}

/// `*`, or a list of `5`, `1..5`, `0/15` and `1..9/2`.
pub(super) fn set(text: &str, what: &str, range: RangeInclusive<u16>) -> Result<Set, String> {
    if text == "*" {
        return Ok(Set::default());
    }
    let fail = || {
        let (from, to) = (range.start(), range.end());
        format!(
            "has \"{text}\", which is no {what}; write *, or numbers {from} to {to} such as {to}, 1,2, 1..5 or 2/5"
        )
    };
    let number = |text: &str| -> Option<u16> {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| plain && range.contains(number))
    };
    let run = |part: &str| -> Option<Run> {
        let (span, step) = match part.split_once('/') {
            Some((span, step)) => (span, Some(step.parse::<u16>().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (first, last) = match span.split_once("..") {
            Some((first, last)) => (number(first)?, Some(number(last)?)),
            None => (number(span)?, None),
        };
        let last = last.unwrap_or(if step.is_some() { *range.end() } else { first });
        // One step must lie within it.
        let has_step = step.is_none_or(|step| first.saturating_add(step) <= *range.end());
        (first <= last && has_step).then_some(Run { first, last, step: step.unwrap_or(1) })
    };
    let runs: Option<Vec<Run>> = text.split(',').map(run).collect();
    runs.map(Set).ok_or_else(fail)
}
