//! The schedules of all services: when each is due, and what is known of its starts. It takes the time as an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use kelson_helper::random::Random;
use kelson_spec::calendar::{Calendar, LocalTime};
use kelson_spec::service::Schedule;

use crate::zone::Zone;

/// A clock that goes back by less does not lead to a second start for the same time; one that goes back further was wrong.
const SET_BACK: u64 = 3600 * SECOND;
pub const SECOND: u64 = 1_000_000;

/// The clocks of the host, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since 1970; it may be set.
    pub wall: u64,
    /// Since the boot of this host, with the time in suspend.
    pub boot: u64,
}

/// What outlives the helper and the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Times up to this one are dealt with.
    pub base: u64,
    /// The last start; 0: there was none.
    pub last: u64,
    /// The time since the boot of the last start in this boot; 0: there was none. `None`: all this is of an earlier boot.
    pub boot: Option<u64>,
}

/// The schedule of one service.
pub struct Timer {
    schedule: Schedule,
    calendars: Vec<(Calendar, Zone)>,
    pub trouble: String,
    pub kept: Kept,
    /// The next time of the calendar, and the later time of the start.
    wall: Option<(u64, u64)>,
    /// While the clock is far behind `kept.base`: times up to this one are dealt with instead. It was wrong before, or it is
    /// wrong now and will be set.
    low: Option<u64>,
    /// The next start by the time since the last one, and the one by the time since the boot.
    every: Option<u64>,
    after_boot: Option<u64>,
    /// PID 1 was asked to start it, and has not answered: for which time.
    pub asked: Option<u64>,
}

#[derive(Default)]
pub struct Agenda {
    pub timers: BTreeMap<String, Timer>,
}

impl Timer {
    /// `kept`: of an earlier process or boot.
    pub fn new(schedule: Schedule, kept: Option<Kept>, now: Now, random: &mut Random) -> Timer {
        let mut trouble = String::new();
        let mut calendars = Vec::new();
        for text in &schedule.calendar {
            match Calendar::read(text).and_then(|calendar| {
                let zone = Zone::of(calendar.zone())?;
                Ok((calendar, zone))
            }) {
                Ok(calendar) => calendars.push(calendar),
                Err(why) => trouble = format!("{text} {why}"),
            }
        }
        let known = kept.unwrap_or(Kept { base: now.wall, last: 0, boot: Some(0) });
        let started = known.boot.filter(|boot| *boot > 0);
        // After a restart of this process nothing is lost; after downtime, what `catchUp` says.
        let base = if schedule.catch_up || known.boot.is_some() { known.base } else { now.wall };
        let kept = Kept { base, boot: Some(started.unwrap_or_default()), ..known };
        let jitter = micros(random.part_of(schedule.jitter));
        // One that has passed is due at once, as with systemd.
        let after_boot = schedule
            .after_boot
            .map(micros)
            .filter(|after| started.is_none_or(|started| started < *after))
            .map(|after| after.saturating_add(jitter));
        let every = schedule.every.map(micros).map(|every| {
            let from = started.unwrap_or_else(|| {
                let is_counted = known.last > 0 && schedule.catch_up;
                let passed = if is_counted { now.wall.saturating_sub(known.last) } else { 0 };
                now.boot.saturating_sub(passed)
            });
            from.saturating_add(every).saturating_add(jitter)
        });
        // The first start of a boot comes after it.
        let every = every.filter(|_| after_boot.is_none() || started.is_some());
        let mut timer = Timer {
            schedule,
            calendars,
            trouble,
            kept,
            wall: None,
            low: None,
            every,
            after_boot,
            asked: None,
        };
        timer.look(now, random);
        timer
    }

    /// Looks for the next time of the calendar.
    fn look(&mut self, now: Now, random: &mut Random) {
        let behind = |time: u64| time.saturating_sub(now.wall) > SET_BACK;
        self.low = behind(self.kept.base).then(|| self.low.filter(|low| !behind(*low)).unwrap_or(now.wall));
        let from = self.low.unwrap_or(self.kept.base);
        let next = self.calendars.iter().filter_map(|(calendar, zone)| next(calendar, zone, from)).min();
        let jitter = micros(random.part_of(self.schedule.jitter));
        self.wall = next.map(|next| (next, next.saturating_add(jitter)));
    }

    /// The clock was set.
    pub fn clock_set(&mut self, now: Now, random: &mut Random) {
        if self.low.is_some() || self.kept.base.saturating_sub(now.wall) > SET_BACK {
            self.look(now, random);
        }
    }

    /// The time for which it is due now.
    pub fn due(&self, now: Now) -> Option<u64> {
        let of_calendar = self.wall.filter(|(_, start)| *start <= now.wall).map(|(time, _)| time);
        of_calendar.or_else(|| self.since_boot().filter(|boot| *boot <= now.boot).map(|_| now.wall))
    }

    /// The next start by the time since the boot.
    fn since_boot(&self) -> Option<u64> {
        self.every.into_iter().chain(self.after_boot).min()
    }

    /// It was started: all that has passed is dealt with.
    pub fn started(&mut self, now: Now, random: &mut Random) {
        self.asked = None;
        // One at a time far behind shows that it was the clock before that was wrong.
        let base = if self.low.is_some() { now.wall } else { now.wall.max(self.kept.base) };
        self.kept = Kept { base, last: now.wall.max(1), boot: Some(now.boot.max(1)) };
        self.look(now, random);
        let jitter = micros(random.part_of(self.schedule.jitter));
        self.every =
            self.schedule.every.map(|every| now.boot.saturating_add(micros(every)).saturating_add(jitter));
        self.after_boot = self.after_boot.filter(|after| *after > now.boot);
    }

    /// The next start by the clock, by the time since the boot.
    pub fn deadlines(&self) -> (Option<u64>, Option<u64>) {
        if self.asked.is_some() {
            return (None, None);
        }
        (self.wall.map(|(_, start)| start), self.since_boot())
    }

    /// The next start, in microseconds since 1970.
    pub fn next(&self, now: Now) -> Option<u64> {
        let of_boot = self.since_boot().map(|boot| now.wall.saturating_add(boot.saturating_sub(now.boot)));
        self.wall.map(|(_, start)| start).into_iter().chain(of_boot).min()
    }
}

impl Agenda {
    /// The first start by the clock, and the first by the time since the boot.
    pub fn deadlines(&self) -> (Option<u64>, Option<u64>) {
        let all = || self.timers.values().map(Timer::deadlines);
        (all().filter_map(|(wall, _)| wall).min(), all().filter_map(|(_, boot)| boot).min())
    }
}

/// The first time of a calendar after this one. A local time that the zone leaves out has no start, and one that it has
/// twice has one start, as with systemd.
fn next(calendar: &Calendar, zone: &Zone, after: u64) -> Option<u64> {
    let seconds = after.checked_div(SECOND)?;
    let mut local: LocalTime = zone.local(seconds)?;
    loop {
        local = calendar.next(local)?;
        if let Some(found) = zone.instant(local).filter(|found| *found > seconds) {
            return found.checked_mul(SECOND);
        }
    }
}

pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600 * SECOND;
    const DAY: u64 = 24 * HOUR;
    /// 2026-01-01 00:00 UTC, an hour after the boot.
    const START: Now = Now { wall: 1_767_225_600 * SECOND, boot: HOUR };

    fn after(micros: u64) -> Now {
        Now { wall: START.wall + micros, boot: START.boot + micros }
    }

    fn timer(schedule: Schedule, kept: Option<Kept>, now: Now) -> Timer {
        let timer = Timer::new(schedule, kept, now, &mut Random::seeded());
        assert_eq!(timer.trouble, "");
        timer
    }

    fn daily() -> Schedule {
        Schedule { calendar: vec!["03:00 UTC".into()], ..Schedule::default() }
    }

    fn run(timer: &mut Timer, now: Now) {
        assert!(timer.due(now).is_some());
        timer.started(now, &mut Random::seeded());
        assert_eq!(timer.due(now), None, "once");
    }

    /// Each line is an outcome of systemd's own search.
    #[test]
    fn times_are_those_of_systemd() {
        let berlin = Zone::of(Some("Europe/Berlin")).unwrap();
        let utc = Zone::of(Some("UTC")).unwrap();
        let local = |text: &str| {
            let numbers: Vec<u16> = text.split(['-', ' ', ':']).map(|part| part.parse().unwrap()).collect();
            let [year, month, day, hour, minute, second] = numbers[..] else { panic!("{text}") };
            LocalTime { year, month, day, hour, minute, second }
        };
        let mut lines = 0;
        for line in include_str!("systemd-252-calendar.txt").lines().filter(|line| !line.starts_with('#')) {
            let mut parts = line.split('|');
            let calendar = Calendar::read(parts.next().unwrap()).unwrap();
            let mut at = berlin.instant(local(parts.next().unwrap())).unwrap() * SECOND;
            let zone =
                calendar.zone().map_or_else(|| Zone::of(Some("Europe/Berlin")), |zone| Zone::of(Some(zone)));
            let zone = zone.unwrap();
            let mut count = 0;
            for expected in parts {
                at = next(&calendar, &zone, at).unwrap();
                assert_eq!(at, utc.instant(local(expected)).unwrap() * SECOND, "{line}");
                count += 1;
            }
            if count < 4 {
                assert_eq!(next(&calendar, &zone, at), None, "{line}");
            }
            lines += 1;
        }
        assert!(lines > 100);
    }

    #[test]
    fn a_missed_time_is_made_up_for_once_if_it_is_to_be() {
        let kept = Some(Kept { base: START.wall - 9 * DAY, last: START.wall - 9 * DAY, boot: None });
        let mut missed = timer(daily(), kept, START);
        run(&mut missed, START);
        assert_eq!(missed.next(START), Some(START.wall + 3 * HOUR));
        let left = timer(Schedule { catch_up: false, ..daily() }, kept, START);
        assert_eq!((left.due(START), left.next(START)), (None, Some(START.wall + 3 * HOUR)));
        assert_eq!(timer(daily(), None, START).due(START), None, "it has missed nothing");
        // The helper was away for a moment, in this boot.
        let moment = Some(Kept { base: START.wall, last: 0, boot: Some(0) });
        run(&mut timer(Schedule { catch_up: false, ..daily() }, moment, after(3 * HOUR)), after(3 * HOUR));
    }

    #[test]
    fn a_clock_that_is_set_leads_to_one_start_at_most() {
        let random = &mut Random::seeded();
        let mut timer = timer(daily(), None, START);
        // Ten years ahead: one start for all that it leaps over.
        let far = Now { wall: START.wall + 3650 * DAY, ..START };
        timer.clock_set(far, random);
        run(&mut timer, far);
        // And back, where the times are dealt with as ever.
        timer.clock_set(START, random);
        assert_eq!(timer.due(START), None);
        run(&mut timer, after(3 * HOUR));
        // A little back: not twice for the same time.
        let back = after(3 * HOUR - 60 * SECOND);
        timer.clock_set(back, random);
        assert_eq!(timer.due(after(3 * HOUR + SECOND)), None);
        assert_eq!(timer.next(back), Some(START.wall + 27 * HOUR));
        // Ten years back.
        let past = Now { wall: START.wall - 3650 * DAY, ..START };
        timer.clock_set(past, random);
        assert_eq!((timer.due(past), timer.next(past)), (None, Some(past.wall + 3 * HOUR)));
    }

    #[test]
    fn an_interval_does_not_mind_the_clock_and_goes_on_after_a_restart() {
        let every = Schedule { every: Some(Duration::from_secs(900)), ..Schedule::default() };
        let mut first = timer(every.clone(), None, START);
        assert_eq!(first.due(Now { wall: START.wall + DAY, ..START }), None);
        let at = after(900 * SECOND);
        run(&mut first, at);
        let later = after(1200 * SECOND);
        assert_eq!(timer(every, Some(first.kept), later).next(later), Some(at.wall + 900 * SECOND));
        let boot = Schedule { after_boot: Some(Duration::from_secs(7200)), ..Schedule::default() };
        let mut boot = timer(boot, None, START);
        run(&mut boot, after(HOUR));
        assert_eq!(boot.next(after(HOUR)), None, "once for each boot");
        let passed = Schedule { after_boot: Some(Duration::from_secs(60)), ..Schedule::default() };
        let mut passed = timer(passed, None, START);
        run(&mut passed, START);
        let kept = Some(passed.kept);
        let again = timer(passed.schedule, kept, after(SECOND));
        assert_eq!(again.next(after(SECOND)), None, "nor after a restart of this process");
    }

    #[test]
    fn a_clock_that_is_set_late_leads_to_no_second_start() {
        let random = &mut Random::seeded();
        let every = Schedule { every: Some(Duration::from_secs(900)), ..daily() };
        let kept = Some(Kept { base: START.wall, last: START.wall, boot: None });
        // A boot without a clock: it is 1970 until it is set.
        let early = |seconds: u64| Now { wall: seconds * SECOND, boot: seconds * SECOND };
        let mut timer = timer(every.clone(), kept, early(20));
        let set = Now { wall: START.wall + HOUR, boot: 25 * SECOND };
        timer.clock_set(set, random);
        assert_eq!(timer.due(set), None, "it was started at its time before the boot");
        assert_eq!(timer.next(set), Some(set.wall + 895 * SECOND));
        // Nor does a start before the clock is set lead to one when this process is replaced afterwards.
        let mut timer = self::timer(every.clone(), kept, early(20));
        run(&mut timer, early(920));
        let set = Now { wall: START.wall + HOUR, boot: 930 * SECOND };
        assert_eq!(
            self::timer(Schedule { calendar: Vec::new(), ..every }, Some(timer.kept), set).due(set),
            None
        );
    }

    #[test]
    fn the_start_after_the_boot_comes_once_for_each_boot_whatever_else_starts_it() {
        let schedule = Schedule { after_boot: Some(Duration::from_secs(2 * 3600)), ..daily() };
        let missed = Some(Kept { base: START.wall - DAY, last: START.wall - DAY, boot: None });
        let mut first = timer(schedule.clone(), missed, START);
        run(&mut first, START);
        assert_eq!(
            first.next(START),
            Some(START.wall + HOUR),
            "it is made up for downtime, and this is still to come"
        );
        let again = timer(schedule.clone(), Some(first.kept), after(SECOND));
        assert_eq!(again.next(after(SECOND)), Some(START.wall + HOUR));
        run(&mut first, after(HOUR));
        let again = timer(schedule.clone(), Some(first.kept), after(HOUR + SECOND));
        assert_eq!(again.next(after(HOUR + SECOND)), Some(START.wall + 3 * HOUR), "the next night");
        let next = Kept { boot: None, ..first.kept };
        let boot = Now { wall: START.wall + 2 * HOUR, boot: SECOND };
        let again = timer(Schedule { calendar: Vec::new(), ..schedule }, Some(next), boot);
        assert_eq!(again.next(boot), Some(boot.wall + 2 * HOUR - SECOND), "the next boot");
    }

    #[test]
    fn jitter_delays_within_its_bounds() {
        let schedule = Schedule { jitter: Duration::from_secs(600), ..daily() };
        let times: Vec<u64> = (0..200)
            .map(|_| timer(schedule.clone(), None, START).next(START).unwrap() - START.wall)
            .collect();
        let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!(*first >= 3 * HOUR && *last <= 3 * HOUR + 600 * SECOND && first < last);
    }

    #[test]
    fn a_line_of_cron_has_the_times_of_cron() {
        let utc = Zone::of(Some("UTC")).unwrap();
        let next = |text: &str| {
            let calendar = Calendar::read(&format!("cron {text}")).unwrap();
            (next(&calendar, &utc, START.wall).unwrap() - START.wall) / 60 / SECOND
        };
        // It is a Thursday, 00:00.
        for (line, minutes) in [
            ("0 3 * * *", 180),
            ("*/15 * * * *", 15),
            ("5-10/5 2 * * *", 125),
            ("0 0 * * 0", 3 * 1440),
            ("0 0 * * 7", 3 * 1440),
            ("0 0 * * fri", 1440),
            ("0 0 13 * 5", 1440),
            ("0 0 1 feb *", 31 * 1440),
            ("@weekly", 3 * 1440),
            ("@hourly", 60),
        ] {
            assert_eq!(next(line), minutes, "{line}");
        }
        for wrong in ["", "0 3 * *", "60 * * * *", "0 3 L * *", "@reboot", "0 3 * * 1#2", "* * * * * * *"] {
            assert!(Calendar::read(&format!("cron {wrong}")).is_err(), "{wrong}");
        }
    }
}
