//! The report of a scope: its state in words, and each culprit with its reason.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_proto::v1;
use kelson_spec::machine::NodeHealthSpec;
use tokio::time::Instant;

use super::scope::{HealthState, Scope};
use crate::health::MissingCheck;
use crate::model::{Snapshot, State};
use crate::service_runner::gate::Registry;
use crate::service_runner::words;

/// How many culprits are named in one event.
const NAMED: usize = 4;

/// How the host, or a group, is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    pub state: HealthState,
    /// Since when it is in that state, and how long that is.
    pub since: SystemTime,
    pub lasts: Duration,
    /// How long all have been up, and all checks have passed, without a break. `None`: not all do.
    pub steady: Option<Duration>,
    /// How long that must be.
    pub minimum: Duration,
    /// After so long without that it has failed; what is left of it while it is pending.
    pub deadline: Duration,
    pub left: Option<Duration>,
    /// How many services are asked.
    pub services: usize,
    /// Those of them that are not up, by name; then the checks of the group that do not pass.
    pub culprits: Vec<Culprit>,
    /// The last culprit, with its message then.
    pub last_break: Option<Culprit>,
    /// Services that need not be up, are meant to be and are not, by name.
    pub optional: Vec<Culprit>,
    /// Files with mistakes that change nothing of the state.
    pub warnings: Vec<v1::FileWarning>,
    /// All that in a sentence.
    pub message: String,
}

/// A service that is not up and should be, or a check of the group that does not pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    /// Empty: a check of the group.
    pub service: Arc<str>,
    /// Empty: a service.
    pub check: Arc<str>,
    /// Of a service.
    pub state: State,
    pub reason: Arc<str>,
    /// Since when it is not up, or does not pass.
    pub since: SystemTime,
    pub lasts: Duration,
}

impl Culprit {
    pub fn of(now: &Snapshot) -> Culprit {
        Culprit {
            service: Arc::clone(&now.name),
            check: Arc::default(),
            state: now.state,
            reason: Arc::clone(&now.message),
            since: now.since,
            lasts: now.entered.elapsed(),
        }
    }

    /// `web: exited with status 3`, `check front: HTTP status 500`.
    fn sentence(&self) -> String {
        match &*self.check {
            "" => format!("{}: {}", self.service, self.reason),
            check => format!("check {check}: {}", self.reason),
        }
    }
}

pub fn report(scope: &Scope, spec: &NodeHealthSpec, registry: &Registry, now: Instant) -> Health {
    // The wall clock may have been set since: counted back from now.
    let clock = SystemTime::now();
    let wall = |at: Instant| clock.checked_sub(now.saturating_duration_since(at)).unwrap_or(clock);
    let culprit = |(name, since): (&Arc<str>, &Instant)| {
        let snapshot = registry.get(name)?;
        let snapshot = snapshot.borrow();
        Some(Culprit {
            service: Arc::clone(name),
            check: Arc::default(),
            state: snapshot.state,
            reason: Arc::clone(&snapshot.message),
            since: wall(*since),
            lasts: now.saturating_duration_since(*since),
        })
    };
    let check = |missing: &MissingCheck| Culprit {
        service: Arc::default(),
        check: Arc::clone(&missing.name),
        state: State::default(),
        reason: Arc::clone(&missing.why),
        since: missing.since.0,
        lasts: now.saturating_duration_since(missing.since.1),
    };
    let culprits = scope.culprits.iter().filter_map(culprit);
    let last_break = scope.last_break.as_ref().map(|last| Culprit {
        service: Arc::clone(&last.service),
        check: Arc::clone(&last.check),
        state: registry.get(&last.service).map(|now| now.borrow().state).unwrap_or_default(),
        reason: Arc::clone(&last.reason),
        since: wall(last.at),
        lasts: now.saturating_duration_since(last.at),
    });
    let steady = scope.steady.map(|since| now.saturating_duration_since(since));
    let left = (scope.state == HealthState::Pending)
        .then(|| spec.deadline.saturating_sub(now.saturating_duration_since(scope.begun)));
    Health {
        state: scope.state,
        since: wall(scope.entered),
        lasts: now.saturating_duration_since(scope.entered),
        steady,
        minimum: spec.minimum,
        deadline: spec.deadline,
        left,
        services: scope.asked,
        culprits: culprits.chain(scope.missing_checks.iter().map(check)).collect(),
        last_break,
        optional: Vec::new(),
        warnings: Vec::new(),
        message: message(scope, spec, steady, left),
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
pub fn event(subject: &str, health: &Health) -> String {
    let mut text = format!("{subject} is {}: {}", health.state.name(), health.message);
    if health.state == HealthState::Failed {
        text = format!("{subject} has failed: {}", health.message);
    }
    if health.state == HealthState::Healthy {
        return text;
    }
    let mut named: Vec<String> = health.culprits.iter().take(NAMED).map(Culprit::sentence).collect();
    if named.is_empty() {
        let last = health.last_break.as_ref().map(Culprit::sentence);
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
        let culprit = |name: &str| Culprit {
            service: Arc::from(name),
            check: Arc::default(),
            state: State::Failed,
            reason: Arc::from("exited with status 3"),
            since: SystemTime::now(),
            lasts: Duration::ZERO,
        };
        let begun = Instant::now();
        let mut health = report(&Scope::new(begun), &SPEC, &Registry::default(), begun);
        health.state = HealthState::Failed;
        health.message = "not healthy within 5m".into();
        health.last_break = Some(culprit("web"));
        let told = event("the host", &health);
        assert_eq!(
            told,
            "the host has failed: not healthy within 5m (the last break was web: exited with status 3)"
        );
        health.culprits = ["a", "b", "c", "d", "e", "f"].map(culprit).to_vec();
        let told = event("group shop", &health);
        assert!(told.ends_with("d: exited with status 3; and 2 more)"), "{told}");
        health.state = HealthState::Healthy;
        assert_eq!(event("the host", &health), "the host is healthy: not healthy within 5m");
    }
}
