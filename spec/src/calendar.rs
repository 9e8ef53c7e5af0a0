//! Expressions of calendar times, as systemd.time(7) has them: `Mon..Fri *-*-* 03:00:00 Europe/Berlin`.
//!
//! [`Calendar::read`] is for the helpers; PID 1 carries the text alone. [`Calendar::next`] knows no time zone: it looks
//! for the next local time, and the helper that waits puts it into the zone.

mod cron;
mod read;

use std::ops::RangeInclusive;

/// The years in which times are looked for, as in systemd.
const YEARS: RangeInclusive<u16> = 1970..=2199;
/// No expression is longer.
const LONGEST: usize = 256;

/// Begins the text of an expression in the form of crontab(5).
pub const CRON: &str = "cron ";
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
            return cron::line(cron);
        }
        read::expression(text)
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
            from = from.max(LocalTime::of_day(year, 1, 1));
            let Some(month) = self.months.first_in(from.month..=12) else {
                from = LocalTime::of_day(year.checked_add(1)?, 1, 1);
                continue;
            };
            from = from.max(LocalTime::of_day(year, month, 1));
            let length = days_of(year, month);
            let Some(day) = (from.day..=length).find(|day| self.has_day(year, month, *day, length)) else {
                from = LocalTime::of_day(year, month.checked_add(1)?, 1);
                continue;
            };
            from = from.max(LocalTime::of_day(year, month, day));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemd_rejects_is_rejected() {
        for wrong in [
            "",
            "10",
            "*-*/2-*",
            "*-*-* */6:00",
            "mon,,tue",
            "Sat-Mon 10:00",
            "Fri..Mon 06:30",
            "10..05:00",
            "23:59:59/1",
            "24:00",
            "*-13-01",
            "*-*-32",
            "*:60",
            "Xyz 10:00",
            "03:00 Mars Base",
            "*-0-1",
            "1:2:3:4",
            "*-*-*-*",
        ] {
            assert!(Calendar::read(wrong).is_err(), "{wrong}");
        }
    }
}
