//! What is told of a scope: its state in words, and each culprit with its reason.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_spec::machine::NodeHealthSpec;
use tokio::time::Instant;

use super::scope::{HealthState, Scope};
use crate::model::State;
use crate::service_runner::gate::Registry;
use crate::service_runner::words;

/// So many culprits are named in one event.
const NAMED: usize = 4;

/// How the host, or a group, is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    pub state: HealthState,
    /// Since when it is in that state, and how long that is.
    pub since: SystemTime,
    pub lasts: Duration,
    /// How long all have been up without a break. `None`: not all are.
    pub steady: Option<Duration>,
    /// How long that must be.
    pub minimum: Duration,
    /// After so long without that it has failed; what is left of it while it is pending.
    pub deadline: Duration,
    pub left: Option<Duration>,
    /// How many services are asked.
    pub services: usize,
    /// Those of them that are not up, by name.
    pub culprits: Vec<Culprit>,
    /// Who broke it last, with what it said then.
    pub last_break: Option<Culprit>,
    /// All that in a sentence.
    pub message: String,
}

/// A service that is not up and should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    pub service: Arc<str>,
    pub state: State,
    pub reason: Arc<str>,
    /// Since when it is not up.
    pub since: SystemTime,
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
            state: snapshot.state,
            reason: Arc::clone(&snapshot.message),
            since: wall(*since),
        })
    };
    let last_break = scope.last_break.as_ref().map(|last| Culprit {
        service: Arc::clone(&last.service),
        state: registry.get(&last.service).map(|now| now.borrow().state).unwrap_or_default(),
        reason: Arc::clone(&last.reason),
        since: wall(last.at),
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
        culprits: scope.culprits.iter().filter_map(culprit).collect(),
        last_break,
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

/// `all 3 services are up`, `its one service is up`.
fn all(count: usize) -> String {
    match count {
        0 => "no service has to be up".into(),
        1 => "its one service is up".into(),
        _ => format!("all {count} services are up"),
    }
}

fn whole_seconds(span: Duration) -> String {
    match span.as_secs() {
        0 => "0 s".into(),
        seconds => words::duration(Duration::from_secs(seconds)),
    }
}

fn message(scope: &Scope, spec: &NodeHealthSpec, steady: Option<Duration>, left: Option<Duration>) -> String {
    let culprits = scope.culprits.len();
    let now = match steady {
        Some(steady) if scope.state == HealthState::Healthy => {
            format!("{} for {}", all(scope.asked), whole_seconds(steady))
        }
        Some(steady) => format!(
            "{}, for {} of the {} that make it healthy",
            all(scope.asked),
            whole_seconds(steady),
            words::duration(spec.minimum)
        ),
        None => format!("{culprits} of {} {} not up", services(scope.asked), are(culprits)),
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
    let tell = |culprit: &Culprit| format!("{}: {}", culprit.service, culprit.reason);
    let mut named: Vec<String> = health.culprits.iter().take(NAMED).map(tell).collect();
    if named.is_empty() {
        named.extend(health.last_break.as_ref().map(|last| format!("the last break was {}", tell(last))));
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
            state: State::Failed,
            reason: Arc::from("exited with status 3"),
            since: SystemTime::now(),
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
