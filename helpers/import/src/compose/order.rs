//! When a service of a compose file starts, starts again, and stops.

use std::time::Duration;

use kelson_spec::kernel::parse_signal;
use kelson_spec::service::{Requirement, RestartPolicy, ServiceEvent, ServiceKind, StartMode, WhenDown};

use super::draft::{Draft, Part};
use crate::finding::Outcome;
use crate::key::{kept, nearly};
use crate::unit_name::kelson_name;
use crate::values::{LONGEST, time_span};
use crate::yaml::{Kind, Value};

const MOST_ATTEMPTS: u32 = 1_000_000;

/// The keys of the mapping.
pub const KEYS: Part = Part {
    title: "`deploy.restart_policy`",
    keys: &[
        kept("condition", condition, "`restart: {policy: …}`"),
        kept("delay", delay, "`restart: {delay: …, maxDelay: …}`"),
        kept("max_attempts", max_attempts, "`restart: {attempts: …}`"),
        nearly("window", window, "`restart: {interval: …}`: the time in which attempts are counted"),
    ],
};

pub fn depends_on(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let entries: Vec<(&str, Option<&Value>)> = match &value.content {
        Kind::Map(entries) => entries.iter().map(|(name, how)| (name.as_str(), Some(how))).collect(),
        _ => match value.texts() {
            Some(names) => names.into_iter().map(|name| (name, None)).collect(),
            None => return Outcome::rejected("this is no list or mapping of services"),
        },
    };
    entries.into_iter().map(|(name, how)| depends(draft, name, how)).collect()
}

fn depends(draft: &mut Draft<'_>, name: &str, how: Option<&Value>) -> Outcome {
    let of = |key: &str| how.and_then(|how| how.get(key)).and_then(Value::text);
    let event = match of("condition") {
        None | Some("" | "service_started") => ServiceEvent::Running,
        Some("service_healthy") => ServiceEvent::Up,
        Some("service_completed_successfully") => ServiceEvent::Finished,
        Some(other) => return Outcome::rejected(format!("{other:?} is no condition of Docker")),
    };
    if !draft.context.services().iter().any(|(known, _)| known == name) {
        return Outcome::rejected(format!("the file has no service {name:?}"));
    }
    let (event, outcome) = match (of("required") == Some("false"), event) {
        (true, ServiceEvent::Running) => (ServiceEvent::Settled, Outcome::as_table()),
        (true, _) => {
            let sentence = format!("{name}: the service waits while it starts, and not for its condition");
            (ServiceEvent::Settled, Outcome::approximated(sentence))
        }
        (false, event) => (event, Outcome::as_table()),
    };
    let restarts = of("restart") == Some("true") && matches!(event, ServiceEvent::Running | ServiceEvent::Up);
    let when_down = if restarts { WhenDown::Restart } else { WhenDown::Ignore };
    draft.spec.depends.push(Requirement::Service { name: kelson_name(name), event, when_down });
    outcome
}

pub fn links(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let mut outcome = Outcome::as_table();
    for link in value.texts().unwrap_or_default() {
        let (name, alias) = link.split_once(':').unwrap_or((link, link));
        let is_known = |requirement: &Requirement| matches!(requirement, Requirement::Service { name: known, .. } if *known == kelson_name(name));
        if !draft.spec.depends.iter().any(is_known) {
            outcome = outcome.and(depends(draft, name, None));
        }
        if alias != name {
            outcome = outcome.and(Outcome::rejected(format!("{name} has no second name {alias}")));
        }
    }
    outcome
}

pub fn restart(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let text = value.text().unwrap_or_default();
    let (word, most) = text.split_once(':').map_or((text, None), |(word, most)| (word, Some(most)));
    if let Some(most) = most {
        let Some(attempts) = most.parse::<u32>().ok().filter(|most| *most <= MOST_ATTEMPTS) else {
            return Outcome::rejected(format!("{most:?} is no number of restarts"));
        };
        draft.spec.restart.attempts = attempts;
    }
    let outcome = policy(draft, word);
    match most {
        Some(_) => outcome.and(Outcome::approximated("restarts are counted within 5 minutes")),
        None => outcome,
    }
}

fn policy(draft: &mut Draft<'_>, word: &str) -> Outcome {
    let is_oneshot = draft.spec.kind == ServiceKind::Oneshot;
    draft.spec.restart.policy = match word {
        "" | "no" | "none" | "false" => RestartPolicy::Once,
        "always" | "unless-stopped" | "any" if is_oneshot => {
            draft.spec.restart.policy = RestartPolicy::UntilSuccess;
            return Outcome::rejected("others wait for its end, so it is not started again after a success");
        }
        "always" | "unless-stopped" | "any" => RestartPolicy::Forever,
        "on-failure" => RestartPolicy::UntilSuccess,
        other => return Outcome::rejected(format!("{other:?} is no restart policy")),
    };
    Outcome::as_table()
}

pub fn condition(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    policy(draft, value.text().unwrap_or_default())
}

/// A duration that a service file can have.
///
/// # Errors
/// What is wrong with the value.
pub fn duration(value: &Value) -> Result<Duration, Outcome> {
    let text = value.text().unwrap_or_default();
    let span = time_span(text).flatten().filter(|span| *span <= LONGEST);
    span.ok_or_else(|| Outcome::rejected(format!("{text:?} is no duration")))
}

/// Reads a duration into its place.
pub fn timed(
    draft: &mut Draft<'_>,
    value: &Value,
    put: impl FnOnce(&mut Draft<'_>, Duration) -> Outcome,
) -> Outcome {
    duration(value).map_or_else(|outcome| outcome, |span| put(draft, span))
}

pub fn delay(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    timed(draft, value, |draft, span| {
        let restart = &mut draft.spec.restart;
        (restart.delay, restart.max_delay) = (span, span);
        Outcome::as_table()
    })
}

pub fn window(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    timed(draft, value, |draft, span| {
        draft.spec.restart.interval = span.max(Duration::from_millis(1));
        Outcome::as_table()
    })
}

pub fn max_attempts(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text().and_then(|text| text.parse::<u32>().ok()).filter(|most| *most <= MOST_ATTEMPTS) {
        Some(attempts) => {
            draft.spec.restart.attempts = attempts;
            Outcome::as_table()
        }
        None => Outcome::rejected("this is no number of restarts"),
    }
}

pub fn profiles(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    if value.is_empty() {
        return Outcome::kept("it belongs to no profile");
    }
    draft.spec.start = StartMode::Manual;
    Outcome::as_table()
}

pub fn stop_grace_period(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    timed(draft, value, |draft, span| {
        draft.spec.stop.timeout = span.max(Duration::from_millis(1));
        Outcome::as_table()
    })
}

pub fn stop_signal(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match parse_signal(value.text().unwrap_or_default()) {
        Ok(signal) => {
            draft.spec.stop.signal = signal;
            draft.container.stop_signal_of_image = false;
            Outcome::as_table()
        }
        Err(error) => Outcome::rejected(error.to_string()),
    }
}
