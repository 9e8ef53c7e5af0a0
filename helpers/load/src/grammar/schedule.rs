//! `schedule`: the times at which a service is started.

use super::at::At;
use super::codec::{Codec, one_or};
use super::mapping::{Mapping, keys};
use super::seen::Seen;
use super::values::{any_word, boolean, choice, duration, duration_from};
use crate::decode::{Decoder, quoted};
use crate::schema::Kind;
use kelson_spec::calendar::{CRON, Calendar};
use kelson_spec::service::{Overlap, Schedule, ServiceSpec, StartMode};

/// `schedule: daily`, or a mapping.
pub fn schedule() -> Codec<Schedule> {
    let whole = Mapping::codec(mapping);
    let (kind, short) = (whole.kind.clone(), calendar());
    let word = short.kind.clone();
    whole.of_kind(move || Kind::Either(vec![word(), kind()])).around(move |d, node, inner| {
        if node.is_mapping() {
            return inner(d, node);
        }
        short.decode(d, node).map(|text| Schedule { calendar: vec![text], ..Schedule::default() })
    })
}

/// Its place in a service file.
pub fn at() -> At<ServiceSpec, Option<Schedule>> {
    At::Field { get: Some(|spec| spec.schedule().cloned()), put: ServiceSpec::set_schedule }
}

fn mapping() -> Mapping<Schedule> {
    let mapping = keys! {
        Mapping::new("schedule", Schedule::default);
        means "calendar" (of(false)) = times(calendar()), "none",
            "[times of the calendar](howto/timers.md#times-of-the-calendar) such as `Mon..Fri 03:00` or `daily`: one, or a list";
        means "cron" (of(true)) = times(cron()), "none", "the same as a line of crontab(5): `0 3 * * 1-5`";
        means "every" every = duration_from(Schedule::SHORTEST).optional(), "none", "so long after its last start by the schedule";
        means "afterBoot" after_boot = duration().optional(), "none", "so long after the boot, once for each boot";
        key "jitter" jitter = duration(), "each start is later by a random part of this";
        key "catchUp" catch_up = boolean(), "whether one start makes up for all that the host missed while it was down";
        key "overlap" overlap = choice(Overlap::ALL.map(|one| (one.name(), one))),
            "while it still runs: `forbid`: the start is left out; `replace`: it is restarted; `queue`: it starts once \
             more when it has ended";
    };
    mapping.check(|d, seen, schedule: &mut Schedule| {
        let names_a_time = ["calendar", "cron", "every", "afterBoot"].iter().any(|key| seen.has(key));
        if schedule.is_empty() && !names_a_time {
            seen.wrong_key(d, "calendar", "it names no time; write calendar, cron, every or afterBoot");
        }
    })
}

/// Both kinds of expressions are entries of one list.
fn of(cron: bool) -> At<Schedule, Vec<String>> {
    At::new(
        move |schedule: &Schedule| {
            let texts = schedule.calendar.iter().filter(|text| text.starts_with(CRON) == cron);
            Some(texts.map(|text| text.strip_prefix(CRON).unwrap_or(text).to_owned()).collect())
        },
        move |schedule, texts: Vec<String>| {
            let prefix = if cron { CRON } else { "" };
            schedule.calendar.extend(texts.into_iter().map(|text| format!("{prefix}{text}")));
        },
    )
}

fn times(one: Codec<String>) -> Codec<Vec<String>> {
    const MOST: usize = Schedule::MOST;
    one_or(one, |one| {
        one.list_of(0..=MOST, "a list of times such as [daily, '12:00']").around(|d, node, list| {
            d.at_most(node, MOST, |count| format!("these are {count} times; at most {MOST} can stand here"))?;
            list(d, node)
        })
    })
}

fn calendar() -> Codec<String> {
    any_word("time of the calendar", "daily").but(|text| refused(text, text))
}

fn cron() -> Codec<String> {
    any_word("line of cron", "0 3 * * *").but(|text| refused(text, &format!("{CRON}{text}")))
}

fn refused(text: &str, whole: &str) -> Option<String> {
    Calendar::read(whole).err().map(|why| format!("{} {why}", quoted(text)))
}

/// Notes mistakes that other keys make. The clock starts it, and the boot does not.
pub fn check(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &mut ServiceSpec) {
    if spec.schedule().is_none() {
        return;
    }
    if spec.start == StartMode::Auto && seen.has("start") {
        seen.wrong_value(
            d,
            "start",
            "the schedule starts it, and the boot does not; leave start or schedule out",
        );
    }
    if spec.never_ends() {
        let text =
            "a service that is always restarted never ends; write type: oneshot, or restart: {policy: once}";
        seen.wrong_key(d, "schedule", text);
    }
    spec.start = StartMode::Manual;
    spec.on_demand = false;
}
