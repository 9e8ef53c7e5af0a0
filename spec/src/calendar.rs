//! Expressions of calendar times, as systemd.time(7) has them: `Mon..Fri *-*-* 03:00:00 Europe/Berlin`.
//!
//! [`Calendar::read`] is for the helpers; PID 1 carries the text alone. [`Calendar::next`] knows no time zone: it looks
//! for the next local time, and the helper that waits puts it into the zone.

use std::ops::RangeInclusive;

/// The years in which times are looked for, as in systemd.
const YEARS: RangeInclusive<u16> = 1970..=2199;
/// No expression is longer.
const LONGEST: usize = 256;
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const SHORT: [(&str, &str); 10] = [
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

/// Begins the text of an expression in the form of crontab(5).
pub const CRON: &str = "cron ";
/// Short forms of crontab(5) that [`SHORT`] does not have.
const SHORT_OF_CRON: [(&str, &str); 2] = [("midnight", "daily"), ("annually", "yearly")];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A local time, without its zone. Ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime {
    pub year: u16,
    pub month: u16,
    pub day: u16,
    pub hour: u16,
    pub minute: u16,
    pub second: u16,
}

/// One expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// From Monday on; empty: all.
    weekdays: Set,
    years: Set,
    months: Set,
    days: Set,
    /// The days are counted from the last day of the month, which is 1.
    from_end: bool,
    hours: Set,
    minutes: Set,
    seconds: Set,
    /// The day is one of `days` or one of `weekdays`, as in cron, where both are named.
    either: bool,
    /// `None`: that of the host.
    zone: Option<String>,
}

/// Numbers of one part. Empty: all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Set(Vec<Run>);

/// `first`, `first + step` and so on up to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u16,
    last: u16,
    step: u16,
}

impl Run {
    fn has(self, number: u16) -> bool {
        (self.first..=self.last).contains(&number)
            && number.checked_sub(self.first).and_then(|over| over.checked_rem(self.step)) == Some(0)
    }
}

impl Set {
    fn has(&self, number: u16) -> bool {
        self.0.is_empty() || self.0.iter().any(|run| run.has(number))
    }

    /// The first of them in a range.
    fn first_in(&self, mut range: RangeInclusive<u16>) -> Option<u16> {
        range.find(|number| self.has(*number))
    }
}

impl Calendar {
    /// Reads an expression, such as `daily`, `03:00`, `Sat,Sun *-*-01..07 12:00 Europe/Berlin` or `*:0/15`.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn read(text: &str) -> Result<Calendar, String> {
        if text.len() > LONGEST {
            return Err(format!("is longer than {LONGEST} letters"));
        }
        if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err("has letters that no time has; write such as Mon *-*-* 12:00".to_owned());
        }
        if let Some(cron) = text.strip_prefix(CRON) {
            return cron_line(cron);
        }
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

    /// The time zone that it names.
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// The first local time after this one. `None`: there is none before the year 2200.
    pub fn next(&self, after: LocalTime) -> Option<LocalTime> {
        let mut from = after.following()?;
        loop {
            let year = self.years.first_in(from.year.max(*YEARS.start())..=*YEARS.end())?;
            from = from.at_least(LocalTime::of_day(year, 1, 1));
            let Some(month) = self.months.first_in(from.month..=12) else {
                from = LocalTime::of_day(year.checked_add(1)?, 1, 1);
                continue;
            };
            from = from.at_least(LocalTime::of_day(year, month, 1));
            let length = days_of(year, month);
            let Some(day) = (from.day..=length).find(|day| self.has_day(year, month, *day, length)) else {
                from = LocalTime::of_day(year, month.checked_add(1)?, 1);
                continue;
            };
            from = from.at_least(LocalTime::of_day(year, month, day));
            match self.in_day(from) {
                Some(found) => return Some(found),
                None => from = LocalTime::of_day(year, month, day.checked_add(1)?),
            }
        }
    }

    fn has_day(&self, year: u16, month: u16, day: u16, length: u16) -> bool {
        let number = match self.from_end {
            true => length.saturating_sub(day).saturating_add(1),
            false => day,
        };
        let (is_day, is_weekday) = (self.days.has(number), self.weekdays.has(weekday(year, month, day)));
        if self.either { is_day || is_weekday } else { is_day && is_weekday }
    }

    /// The first time of this day from this one on.
    fn in_day(&self, from: LocalTime) -> Option<LocalTime> {
        for hour in (from.hour..24).filter(|hour| self.hours.has(*hour)) {
            let minutes = if hour == from.hour { from.minute } else { 0 };
            for minute in (minutes..60).filter(|minute| self.minutes.has(*minute)) {
                let seconds = if (hour, minute) == (from.hour, from.minute) { from.second } else { 0 };
                if let Some(second) = self.seconds.first_in(seconds..=59) {
                    return Some(LocalTime { hour, minute, second, ..from });
                }
            }
        }
        None
    }
}

impl LocalTime {
    /// The beginning of a day.
    pub fn of_day(year: u16, month: u16, day: u16) -> LocalTime {
        LocalTime { year, month, day, hour: 0, minute: 0, second: 0 }
    }

    fn at_least(self, other: LocalTime) -> LocalTime {
        self.max(other)
    }

    /// A second later. The parts may be beyond their ends: they are no time then, and those after them are looked at.
    fn following(self) -> Option<LocalTime> {
        Some(LocalTime { second: self.second.checked_add(1)?, ..self })
    }
}

/// 0 is Monday.
fn weekday(year: u16, month: u16, day: u16) -> u16 {
    // Sakamoto's method; the table is of a year that begins in March.
    const OFFSETS: [u32; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let offset = OFFSETS.get(usize::from(month.saturating_sub(1))).copied().unwrap_or_default();
    let year = u32::from(if month < 3 { year.saturating_sub(1) } else { year });
    let part = |divisor: u32| year.checked_div(divisor).unwrap_or_default();
    let sum = year.saturating_add(part(4)).saturating_sub(part(100)).saturating_add(part(400));
    let sum = sum.saturating_add(offset).saturating_add(u32::from(day)).saturating_add(6);
    u16::try_from(sum.checked_rem(7).unwrap_or_default()).unwrap_or_default()
}

fn days_of(year: u16, month: u16) -> u16 {
    let divides = |divisor: u16| year.checked_rem(divisor) == Some(0);
    match month {
        2 if divides(4) && (!divides(100) || divides(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
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
fn is_zone(word: &str) -> bool {
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
    let mut runs = Vec::new();
    for part in text.split(',') {
        let Some((first, step)) = part.split_once('/').filter(|(first, _)| *first != "*") else {
            runs.extend(set(part, "day", 1..=31)?.0);
            continue;
        };
        let last =
            set(first, "day", 1..=31)?.0.first().filter(|run| run.first == run.last).map(|run| run.last);
        let step =
            set(step, "day", 1..=31)?.0.first().filter(|run| run.first == run.last).map(|run| run.last);
        let (Some(last), Some(step)) = (last, step) else { return Err(wrong(part, "day", "7/1")) };
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

fn wrong(word: &str, what: &str, right: &str) -> String {
    format!("has \"{word}\", which is no {what}; write such as {right}")
}

/// `MINUTE HOUR DAY MONTH WEEKDAY`, and perhaps a time zone.
fn cron_line(text: &str) -> Result<Calendar, String> {
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
            let calendar = Calendar::read(&format!("{long} {zone}"))?;
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

/// `*`, or a list of `5`, `1..5`, `0/15` and `1..9/2`.
fn set(text: &str, what: &str, range: RangeInclusive<u16>) -> Result<Set, String> {
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
