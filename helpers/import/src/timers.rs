//! The timer units of a service: they become its `schedule`.

use std::time::Duration;

use kelson_spec::calendar::Calendar;
use kelson_spec::service::{Schedule, StartMode};

use crate::draft::Draft;
use crate::finding::{Fate, Finding, Outcome};
use crate::judgement::finding;
use crate::part_unit::{self, PartUnit};
use crate::settings::Setting;
use crate::values::{boolean, time_span};

/// Translates the timer units of a service, and says of each of their keys what became of it.
pub fn translate(draft: &mut Draft<'_>, units: &[PartUnit<'_>]) -> Vec<Finding> {
    // As in systemd, downtime is not made up for unless a unit asks for it.
    draft.schedule = Schedule { catch_up: false, ..Schedule::default() };
    let mut findings = Vec::new();
    for unit in units {
        findings.extend(part_unit::judged(draft, &unit.settings(), "Timer"));
    }
    let schedule = std::mem::take(&mut draft.schedule);
    let Some(unit) = units.first().filter(|_| !schedule.is_empty()) else { return findings };
    let loss = match (draft.spec.on_demand, draft.spec.never_ends()) {
        (true, _) => Some("a connection starts the service, and so no schedule can"),
        (_, true) => Some("a service that is always restarted never ends, and has no schedule"),
        _ => None,
    };
    if let Some(loss) = loss {
        findings.push(finding("Timer", "Unit", unit.name, 0, (Fate::Rejected, loss.to_owned())));
        return findings;
    }
    if draft.spec.start == StartMode::Auto {
        let change =
            (Fate::Approximated, "the schedule starts the service, and the boot does not".to_owned());
        findings.push(finding("Install", "WantedBy", unit.name, 0, change));
        draft.spec.start = StartMode::Manual;
    }
    draft.spec.set_schedule(Some(schedule));
    findings
}

pub fn calendar(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let one = |value: &String| {
        let text = match draft.expanded(value) {
            Ok(text) => text,
            Err(wrong) => return wrong,
        };
        match Calendar::read(&text) {
            Ok(_) if draft.schedule.calendar.len() < Schedule::MOST => {
                draft.schedule.calendar.push(text);
                Outcome::as_table()
            }
            Ok(_) => Outcome::rejected(format!(
                "{text}: a schedule has {} times of the calendar at most",
                Schedule::MOST
            )),
            Err(why) => Outcome::rejected(format!("{text} {why}")),
        }
    };
    setting.list().to_vec().iter().map(one).collect()
}

/// The shortest of the spans counts.
fn shortest(setting: &Setting, known: &mut Option<Duration>, least: Duration) -> Outcome {
    let mut outcome = Outcome::as_table();
    for value in setting.list() {
        let Some(Some(span)) = time_span(value) else {
            outcome = outcome.and(Outcome::rejected(format!("{value} is no span of time that Kelson takes")));
            continue;
        };
        if known.is_some_and(|known| known != span) {
            outcome = outcome.and(Outcome::rejected("a schedule has one such span: the shortest counts"));
        }
        if span < least {
            outcome = outcome.and(Outcome::approximated("the shortest interval is one second"));
        }
        let span = span.max(least);
        *known = Some(known.map_or(span, |known| known.min(span)));
    }
    outcome
}

pub fn after_boot(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    shortest(setting, &mut draft.schedule.after_boot, Duration::ZERO)
}

pub fn every(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    shortest(setting, &mut draft.schedule.every, Schedule::SHORTEST)
}

pub fn jitter(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match time_span(setting.last()) {
        Some(Some(span)) => {
            draft.schedule.jitter = span;
            Outcome::as_table()
        }
        _ => Outcome::rejected("this is no span of time that Kelson takes"),
    }
}

pub fn persistent(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    draft.schedule.catch_up = boolean(setting.last()) == Some(true);
    Outcome::as_table()
}
