//! The report of a scope: its state in words, and each culprit with its reason.

use std::time::{Duration, SystemTime};

use kelson_proto::v1;
use kelson_spec::machine::NodeHealthSpec;
use tokio::time::Instant;

use super::scope::{HealthState, Scope};
use crate::health::MissingCheck;
use crate::messages::duration;
use crate::model::{Numbered as _, Snapshot, State};
use crate::service_runner::gate::Registry;
use crate::service_runner::words;

/// How many culprits are named in one event.
const NAMED: usize = 4;

/// A service that is not up and should be.
fn service(name: &str, state: State, reason: &str, since: SystemTime, lasts: Duration) -> v1::Culprit {
    v1::Culprit {
        service: name.to_owned(),
        check: String::new(),
        state: state.number(),
        reason: reason.to_owned(),
        since: Some(since.into()),
        lasts: Some(duration(lasts)),
    }
}

/// A check of the group that does not pass.
fn check(name: &str, reason: &str, since: SystemTime, lasts: Duration) -> v1::Culprit {
    let state = v1::State::Unspecified.into();
    v1::Culprit { check: name.to_owned(), state, ..service("", State::default(), reason, since, lasts) }
}

pub fn culprit(now: &Snapshot) -> v1::Culprit {
    service(&now.name, now.state, &now.message, now.since, now.entered.elapsed())
}

/// `web: exited with status 3`, `check front: HTTP status 500`.
fn sentence(culprit: &v1::Culprit) -> String {
    match culprit.check.as_str() {
        "" => format!("{}: {}", culprit.service, culprit.reason),
        check => format!("check {check}: {}", culprit.reason),
    }
}

/// How the host, or a group, is now; without its name, the optional services and the warnings.
pub fn report(scope: &Scope, spec: &NodeHealthSpec, registry: &Registry, now: Instant) -> v1::HealthReport {
    // The wall clock may have been set since: counted back from now.
    let clock = SystemTime::now();
    let since = |at: Instant| now.saturating_duration_since(at);
    let wall = |at: Instant| clock.checked_sub(since(at)).unwrap_or(clock);
    let culprits = scope.culprits.iter().filter_map(|(name, at)| {
        let snapshot = registry.get(name)?;
        let snapshot = snapshot.borrow();
        Some(service(name, snapshot.state, &snapshot.message, wall(*at), since(*at)))
    });
    let checks = scope.missing_checks.iter().map(|missing: &MissingCheck| {
        let (wall, at) = missing.since;
        check(&missing.name, &missing.why, wall, since(at))
    });
    let last_break = scope.last_break.as_ref().map(|last| match &*last.check {
        "" => {
            let state = registry.get(&last.service).map(|now| now.borrow().state).unwrap_or_default();
            service(&last.service, state, &last.reason, wall(last.at), since(last.at))
        }
        name => check(name, &last.reason, wall(last.at), since(last.at)),
    });
    let steady = scope.steady.map(since);
    let left =
        (scope.state == HealthState::Pending).then(|| spec.deadline.saturating_sub(since(scope.begun)));
    v1::HealthReport {
        group: String::new(),
        state: scope.state.number(),
        since: Some(wall(scope.entered).into()),
        lasts: Some(duration(since(scope.entered))),
        steady: steady.map(duration),
        minimum: Some(duration(spec.minimum)),
        deadline: Some(duration(spec.deadline)),
        left: left.map(duration),
        services: u32::try_from(scope.asked).unwrap_or(u32::MAX),
        culprits: culprits.chain(checks).collect(),
        last_break,
        message: message(scope, spec, steady, left),
        optional: Vec::new(),
        warnings: Vec::new(),
    }
}

/// `1 service is`, `3 services are`; of the same things again `1 is`, `3 are`.
fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn services(count: usize) -> String {
    format!("{count} service{}", if count == 1 { "" } else { "s" })
}

/// `all 3 services are up`, `its one service is up`; with checks `all 3 services are up and its one check passes`.
fn all(scope: &Scope) -> String {
    let services = match scope.asked {
        0 => "no service has to be up".into(),
        1 => "its one service is up".into(),
        count => format!("all {count} services are up"),
    };
    match scope.checks {
        0 => services,
        1 => format!("{services} and its one check passes"),
        count => format!("{services} and all {count} checks pass"),
    }
}

/// `1 of 3 services is not up`; where all are, `1 of 2 checks does not pass`.
fn missing(scope: &Scope) -> String {
    let (services_down, failing) = (scope.culprits.len(), scope.missing_checks.len());
    if services_down == 0 && failing > 0 {
        let (s, does) = (if scope.checks == 1 { "" } else { "s" }, if failing == 1 { "does" } else { "do" });
        return format!("{failing} of {} check{s} {does} not pass", scope.checks);
    }
    format!("{services_down} of {} {} not up", services(scope.asked), are(services_down))
}

fn whole_seconds(span: Duration) -> String {
    match span.as_secs() {
        0 => "0 s".into(),
        seconds => words::duration(Duration::from_secs(seconds)),
    }
}

fn message(scope: &Scope, spec: &NodeHealthSpec, steady: Option<Duration>, left: Option<Duration>) -> String {
    if let Some(unread) = &scope.unread {
        return format!("its files could not be read: {unread}; `kelsonctl reload` reads them again");
    }
    let now = match steady {
        Some(steady) if scope.state == HealthState::Healthy => {
            format!("{} for {}", all(scope), whole_seconds(steady))
        }
        Some(steady) => format!(
            "{}, for {} of the {} that make it healthy",
            all(scope),
            whole_seconds(steady),
            words::duration(spec.minimum)
        ),
        None => missing(scope),
    };
    match (scope.state, left) {
        (HealthState::Failed, _) => format!("not healthy within {}; {now}", words::duration(spec.deadline)),
        (HealthState::Pending, Some(left)) if steady.is_none() => {
            format!("{now} yet, failed if that lasts {} more", whole_seconds(left))
        }
        _ => now,
    }
}

/// The line that tells a new state, with its first culprits.
pub fn event(subject: &str, state: HealthState, health: &v1::HealthReport) -> String {
    let mut text = format!("{subject} is {}: {}", state.name(), health.message);
    if state == HealthState::Failed {
        text = format!("{subject} has failed: {}", health.message);
    }
    if state == HealthState::Healthy {
        return text;
    }
    let mut named: Vec<String> = health.culprits.iter().take(NAMED).map(sentence).collect();
    if named.is_empty() {
        let last = health.last_break.as_ref().map(sentence);
        named.extend(last.map(|last| format!("the last break was {last}")));
    }
    if let Some(more) = health.culprits.len().checked_sub(NAMED).filter(|more| *more > 0) {
        named.push(format!("and {more} more"));
    }
    if !named.is_empty() {
        text.push_str(&format!(" ({})", named.join("; ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SPEC: NodeHealthSpec =
        NodeHealthSpec { minimum: Duration::from_secs(10), deadline: Duration::from_secs(300) };

    fn said(scope: &mut Scope, at: Instant) -> String {
        scope.conclude(&SPEC, at);
        report(scope, &SPEC, &Registry::default(), at).message
    }

    #[test]
    fn each_state_is_a_sentence() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let web: Arc<str> = Arc::from("web");
        let mut scope = Scope::new(begun);
        scope.asked = 12;
        scope.blame(&web, &web, at(0));
        assert_eq!(
            said(&mut scope, at(40)),
            "1 of 12 services is not up yet, failed if that lasts 4m20s more"
        );
        assert_eq!(said(&mut scope, at(300)), "not healthy within 5m; 1 of 12 services is not up");
        scope.clear("web");
        assert_eq!(
            said(&mut scope, at(300)),
            "not healthy within 5m; all 12 services are up, for 0 s of the 10 s that make it healthy"
        );
        assert_eq!(said(&mut scope, at(310)), "all 12 services are up for 10 s");
        scope.blame(&web, &web, at(320));
        assert_eq!(said(&mut scope, at(320)), "1 of 12 services is not up");
        scope.clear("web");
        scope.asked = 1;
        said(&mut scope, at(330));
        assert_eq!(
            said(&mut scope, at(334)),
            "its one service is up, for 4 s of the 10 s that make it healthy"
        );
        let mut scope = Scope::new(begun);
        assert_eq!(
            said(&mut scope, at(3)),
            "no service has to be up, for 0 s of the 10 s that make it healthy"
        );
        scope.conclude(&SPEC, at(14));
        assert_eq!(said(&mut scope, at(60)), "no service has to be up for 57 s");
    }

    #[test]
    fn an_event_names_the_first_culprits() {
        let culprit = |name: &str| {
            service(name, State::Failed, "exited with status 3", SystemTime::now(), Duration::ZERO)
        };
        let begun = Instant::now();
        let mut health = report(&Scope::new(begun), &SPEC, &Registry::default(), begun);
        health.message = "not healthy within 5m".into();
        health.last_break = Some(culprit("web"));
        let told = event("the host", HealthState::Failed, &health);
        assert_eq!(
            told,
            "the host has failed: not healthy within 5m (the last break was web: exited with status 3)"
        );
        health.culprits = ["a", "b", "c", "d", "e", "f"].map(culprit).to_vec();
        let told = event("group shop", HealthState::Failed, &health);
        assert!(told.ends_with("d: exited with status 3; and 2 more)"), "{told}");
        assert_eq!(
            event("the host", HealthState::Healthy, &health),
            "the host is healthy: not healthy within 5m"
        );
    }
}
