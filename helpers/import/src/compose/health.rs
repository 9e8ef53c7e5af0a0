//! The health check of a service of a compose file.

use std::time::Duration;

use kelson_spec::service::{Check, Probe};

use super::draft::{Draft, Part};
use super::order::timed;
use crate::finding::Outcome;
use crate::key::{kept, moot};
use crate::yaml::{Kind, Value};

/// What Docker has where the file says nothing.
const INTERVAL: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(30);
/// The shortest interval, and the shortest timeout of a check.
const LEAST: Duration = Duration::from_millis(10);
const MOST_FAILURES: u32 = 1000;

/// The keys of the mapping.
pub const KEYS: Part = Part {
    title: "`healthcheck`",
    keys: &[
        kept("test", test, "`exec: {command: …}`"),
        kept("interval", interval, "`interval`"),
        kept("timeout", timeout, "`timeout`"),
        kept("retries", retries, "`failureThreshold`"),
        kept("start_period", start_period, "`grace`"),
        moot("start_interval", "within `grace` a check asks once a second, until it passes"),
        moot("disable", "the service has no check then"),
    ],
};

pub fn healthcheck(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let is_off = value.get("disable").is_some_and(Value::is_true)
        || value.get("test").and_then(Value::texts).is_some_and(|words| words == ["NONE"]);
    if is_off {
        return Outcome::kept("the service has no check");
    }
    let mut check = Check::new("exec", Probe::Exec { command: Vec::new() });
    (check.interval, check.timeout, check.grace) = (INTERVAL, TIMEOUT, Duration::ZERO);
    draft.spec.health = vec![check];
    let outcome = KEYS.read(draft, value);
    let has_command = |check: &Check| matches!(&check.probe, Probe::Exec { command } if !command.is_empty());
    draft.spec.health.retain(has_command);
    match draft.spec.health.is_empty() {
        true => {
            outcome.and(Outcome::rejected("it has no `test`; Kelson does not read the check of an image"))
        }
        false => outcome,
    }
}

/// Changes the check that is being read.
fn change(draft: &mut Draft<'_>, put: impl FnOnce(&mut Check)) -> Outcome {
    if let Some(check) = draft.spec.health.first_mut() {
        put(check);
    }
    Outcome::as_table()
}

pub fn test(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let shell = |line: &str| vec!["/bin/sh".to_owned(), "-c".to_owned(), line.to_owned()];
    let words = match (&value.content, value.texts()) {
        (Kind::Text(line), _) => shell(line),
        (_, Some(words)) => match words.as_slice() {
            ["CMD-SHELL", line] => shell(line),
            ["CMD", words @ ..] if !words.is_empty() => words.iter().map(|&word| word.to_owned()).collect(),
            _ => return Outcome::rejected("write [CMD, PROGRAM, …], [CMD-SHELL, LINE] or [NONE]"),
        },
        _ => return Outcome::rejected("write [CMD, PROGRAM, …], [CMD-SHELL, LINE] or [NONE]"),
    };
    change(draft, |check| check.probe = Probe::Exec { command: words })
}

pub fn interval(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    timed(draft, value, |draft, span| change(draft, |check| check.interval = span.max(LEAST)))
}

pub fn timeout(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    timed(draft, value, |draft, span| change(draft, |check| check.timeout = span.max(LEAST)))
}

pub fn start_period(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    timed(draft, value, |draft, span| change(draft, |check| check.grace = span))
}

pub fn retries(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text().and_then(|text| text.parse::<u32>().ok()).filter(|times| *times <= MOST_FAILURES) {
        Some(times) => change(draft, |check| check.failure_threshold = times.max(1)),
        None => Outcome::rejected("this is no number of failures from 0 to 1000"),
    }
}
