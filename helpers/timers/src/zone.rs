//! Local times of a time zone.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use kelson_spec::calendar::LocalTime;

pub struct Zone(TimeZone);

impl Zone {
    /// `None`: that of the host, UTC where it has none.
    ///
    /// # Errors
    /// There is no such zone.
    pub fn of(name: Option<&str>) -> Result<Zone, String> {
        match name {
            None => Ok(Zone(TimeZone::try_system().unwrap_or(TimeZone::UTC))),
            Some("UTC") => Ok(Zone(TimeZone::UTC)),
            Some(name) => TimeZone::get(name).map(Zone).map_err(|_| {
                format!("names the time zone {name}, which /usr/share/zoneinfo does not have; install it, or write UTC")
            }),
        }
    }

    /// The local time of a time in seconds since 1970.
    pub fn local(&self, seconds: u64) -> Option<LocalTime> {
        let time = self.0.to_datetime(Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?);
        let part = |part: i8| u16::try_from(part).ok();
        Some(LocalTime {
            year: u16::try_from(time.year()).ok()?,
            month: part(time.month())?,
            day: part(time.day())?,
            hour: part(time.hour())?,
            minute: part(time.minute())?,
            second: part(time.second())?,
        })
    }

    /// The first time with this local time, in seconds since 1970. `None`: the zone leaves it out.
    pub fn instant(&self, local: LocalTime) -> Option<u64> {
        let part = |part: u16| i8::try_from(part).ok();
        let LocalTime { year, month, day, hour, minute, second } = local;
        let (year, month, day) = (i16::try_from(year).ok()?, part(month)?, part(day)?);
        let time = DateTime::new(year, month, day, part(hour)?, part(minute)?, part(second)?, 0).ok()?;
        let ambiguous = self.0.to_ambiguous_timestamp(time);
        if let AmbiguousOffset::Gap { .. } = ambiguous.offset() {
            return None;
        }
        u64::try_from(ambiguous.earlier().ok()?.as_second()).ok()
    }
}
