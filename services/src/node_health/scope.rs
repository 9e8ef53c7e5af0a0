//! The health of one set of services, the host's or a group's with its checks. Pure: time comes in as an argument.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::machine::NodeHealthSpec;
use tokio::time::Instant;

use crate::health::MissingCheck;
use crate::model::Numbered;

/// How a set of services stands. None of it is kept against what is true now but the word itself: `Unhealthy` has been
/// healthy before, `Failed` had not been when its deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HealthState {
    /// Not all have been up together for long enough yet.
    #[default]
    Pending,
    /// All are up, or finished one-shots, and all checks of the group pass, at the same time, and have been without a
    /// break for long enough.
    Healthy,
    /// It was healthy. Something broke since, and not all have been up for long enough again.
    Unhealthy,
    /// It was never healthy, and the deadline has passed; or it cannot be healthy before its files are read.
    Failed,
}

impl Numbered for HealthState {
    const ALL: &'static [HealthState] =
        &[HealthState::Pending, HealthState::Healthy, HealthState::Unhealthy, HealthState::Failed];
}

impl HealthState {
    /// The word of the command line and of JSON.
    pub fn name(self) -> &'static str {
        match self {
            HealthState::Pending => "pending",
            HealthState::Healthy => "healthy",
            HealthState::Unhealthy => "unhealthy",
            HealthState::Failed => "failed",
        }
    }
}

/// The service or the check that broke it last, at a moment when all were up and passed.
#[derive(Debug, Clone)]
pub struct Break {
    /// Empty: a check of the group.
    pub service: Arc<str>,
    /// Empty: a service.
    pub check: Arc<str>,
    pub reason: Arc<str>,
    pub at: Instant,
}

#[derive(Debug)]
pub struct Scope {
    /// Since when the deadline counts.
    pub begun: Instant,
    /// The deadline has started again since it was last healthy.
    pub renewed: bool,
    pub state: HealthState,
    /// The state of the last event.
    pub reported: HealthState,
    /// Since when it is in that state.
    pub entered: Instant,
    /// Since when all are up and all checks pass, without a break.
    pub steady: Option<Instant>,
    /// Since when all are up without a break, whatever the checks say.
    pub together: Option<Instant>,
    pub last_break: Option<Break>,
    /// How many are asked.
    pub asked: usize,
    /// Those that are not up, and since when.
    pub culprits: BTreeMap<Arc<str>, Instant>,
    /// How many checks of the group are asked now, and those of them that do not pass.
    pub checks: usize,
    pub missing_checks: Vec<MissingCheck>,
    /// How often the checks have begun.
    pub checks_run: u64,
    /// Why its files are not known.
    pub unread: Option<Arc<str>>,
    /// It is not written down as it is, apart from its culprits.
    pub unwritten: bool,
}

impl Scope {
    pub fn new(now: Instant) -> Scope {
        Scope {
            begun: now,
            renewed: false,
            state: HealthState::default(),
            reported: HealthState::default(),
            entered: now,
            steady: None,
            together: None,
            last_break: None,
            asked: 0,
            culprits: BTreeMap::new(),
            checks: 0,
            missing_checks: Vec::new(),
            checks_run: 0,
            unread: None,
            unwritten: true,
        }
    }

    /// It is not up. Returns whether that is new.
    pub fn blame(&mut self, service: &Arc<str>, reason: &Arc<str>, now: Instant) -> bool {
        if self.culprits.contains_key(service) {
            return false;
        }
        self.broke(service, reason, now);
        self.culprits.insert(Arc::clone(service), now);
        true
    }

    /// It is up, or not asked any more. Returns whether that is new.
    pub fn clear(&mut self, service: &str) -> bool {
        self.culprits.remove(service).is_some()
    }

    /// It was not up for a moment.
    pub fn broke(&mut self, service: &Arc<str>, reason: &Arc<str>, now: Instant) {
        self.unwritten |= self.together.take().is_some();
        self.ends(service, &Arc::default(), reason, now);
    }

    fn ends(&mut self, service: &Arc<str>, check: &Arc<str>, reason: &Arc<str>, now: Instant) {
        if self.steady.take().is_some() {
            let (service, check, reason) = (Arc::clone(service), Arc::clone(check), Arc::clone(reason));
            self.last_break = Some(Break { service, check, reason, at: now });
            self.unwritten = true;
        }
    }

    /// Its checks begin, all services being up.
    pub fn begin_checks(&mut self, now: Instant) {
        self.together.get_or_insert(now);
        self.checks_run = self.checks_run.saturating_add(1);
        self.unwritten = true;
    }

    /// Its checks are asked, and these do not pass.
    pub fn checked(&mut self, checks: usize, missing: Vec<MissingCheck>, now: Instant) {
        if let Some(first) = missing.first() {
            self.ends(&Arc::default(), &first.name, &first.why, now);
        }
        self.checks = checks;
        self.missing_checks = missing;
    }

    /// It has no checks, or they are not asked.
    pub fn unchecked(&mut self) {
        self.checks = 0;
        self.missing_checks.clear();
    }

    /// It was changed or restarted: it has its whole deadline again.
    pub fn renew(&mut self, now: Instant) {
        self.begun = now;
        self.renewed = true;
        self.unwritten = true;
    }

    /// An event has named its state.
    pub fn report(&mut self) {
        self.reported = self.state;
        self.unwritten = true;
    }

    /// Draws the conclusion. Returns whether the state changed.
    pub fn conclude(&mut self, spec: &NodeHealthSpec, now: Instant) -> bool {
        let before = (self.steady, self.together);
        self.together =
            (self.culprits.is_empty() && self.unread.is_none()).then(|| self.together.unwrap_or(now));
        self.steady =
            self.together.filter(|_| self.missing_checks.is_empty()).map(|_| self.steady.unwrap_or(now));
        let well = self.steady.is_some_and(|since| now.saturating_duration_since(since) >= spec.minimum);
        self.unwritten |= (self.steady, self.together) != before;
        let overdue = now.saturating_duration_since(self.begun) >= spec.deadline;
        let next = match self.state {
            _ if self.unread.is_some() => HealthState::Failed,
            _ if well => HealthState::Healthy,
            HealthState::Healthy | HealthState::Unhealthy if self.renewed && !overdue => HealthState::Pending,
            // All may be up again already: healthy is what has no break.
            HealthState::Healthy => HealthState::Unhealthy,
            HealthState::Pending if overdue => HealthState::Failed,
            HealthState::Failed if !overdue => HealthState::Pending,
            state => state,
        };
        let changed = next != self.state;
        if changed {
            self.renewed &= next != HealthState::Healthy;
            self.state = next;
            self.entered = now;
            self.unwritten = true;
        }
        changed
    }

    /// When time alone changes its state.
    pub fn due(&self, spec: &NodeHealthSpec) -> Option<Instant> {
        let after = |instant: Instant, span: Duration| instant.checked_add(span);
        let well = match self.state {
            HealthState::Healthy => None,
            _ => self.steady.and_then(|since| after(since, spec.minimum)),
        };
        let failed = match self.state {
            HealthState::Pending => after(self.begun, spec.deadline),
            _ => None,
        };
        [well, failed].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: NodeHealthSpec =
        NodeHealthSpec { minimum: Duration::from_secs(10), deadline: Duration::from_secs(300) };

    fn name(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    /// A scope and its clock, in seconds since it began.
    struct Played {
        scope: Scope,
        begun: Instant,
    }

    impl Played {
        fn new() -> Played {
            let begun = Instant::now();
            Played { scope: Scope::new(begun), begun }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.begun + Duration::from_secs(seconds)
        }

        fn blame(&mut self, service: &str, seconds: u64) -> HealthState {
            self.scope.blame(&name(service), &name("it is gone"), self.at(seconds));
            self.look(seconds)
        }

        fn clear(&mut self, service: &str, seconds: u64) -> HealthState {
            self.scope.clear(service);
            self.look(seconds)
        }

        fn look(&mut self, seconds: u64) -> HealthState {
            let at = self.at(seconds);
            self.scope.conclude(&SPEC, at);
            self.scope.state
        }

        fn due(&self) -> Option<u64> {
            self.scope.due(&SPEC).map(|due| (due - self.begun).as_secs())
        }
    }

    #[test]
    fn h7_all_at_the_same_time_for_the_minimum_without_a_break() {
        let mut played = Played::new();
        played.blame("db", 0);
        assert_eq!(played.blame("web", 0), HealthState::Pending);
        // Each has been up, but not both together.
        played.clear("db", 1);
        assert_eq!(played.blame("db", 8), HealthState::Pending);
        played.clear("web", 9);
        assert_eq!(played.look(20), HealthState::Pending);
        // Together, but with a break: the ten seconds start again.
        played.clear("db", 21);
        assert_eq!(played.due(), Some(31));
        assert_eq!(played.look(30), HealthState::Pending);
        assert_eq!(played.blame("web", 30), HealthState::Pending);
        assert_eq!(played.clear("web", 31), HealthState::Pending);
        assert_eq!(played.look(40), HealthState::Pending);
        assert_eq!(played.look(41), HealthState::Healthy);
        assert_eq!((played.due(), played.scope.entered), (None, played.at(41)));
    }

    #[test]
    fn h7_the_deadline_makes_it_failed_and_it_recovers() {
        let mut played = Played::new();
        played.blame("db", 0);
        assert_eq!(played.due(), Some(300));
        assert_eq!(played.look(299), HealthState::Pending);
        assert_eq!(played.look(300), HealthState::Failed);
        assert_eq!(played.scope.culprits.keys().map(AsRef::as_ref).collect::<Vec<&str>>(), ["db"]);
        assert_eq!(played.clear("db", 400), HealthState::Failed);
        assert_eq!(played.due(), Some(410));
        assert_eq!(played.look(410), HealthState::Healthy);
    }

    #[test]
    fn h7_a_flapping_service_fails_the_deadline_and_is_named() {
        let mut played = Played::new();
        for round in 0..30 {
            played.clear("web", round * 10);
            assert_eq!(played.blame("web", round * 10 + 9), HealthState::Pending);
        }
        assert_eq!(played.clear("web", 300), HealthState::Failed);
        assert!(played.scope.culprits.is_empty());
        let last = played.scope.last_break.as_ref().unwrap();
        assert_eq!((&*last.service, &*last.reason, last.at), ("web", "it is gone", played.at(299)));
    }

    #[test]
    fn h7_health_is_never_latched() {
        let mut played = Played::new();
        played.look(0);
        assert_eq!(played.look(10), HealthState::Healthy);
        assert_eq!(played.blame("web", 50), HealthState::Unhealthy);
        assert_eq!(played.clear("web", 51), HealthState::Unhealthy);
        assert_eq!(played.look(60), HealthState::Unhealthy);
        assert_eq!(played.look(61), HealthState::Healthy);
        // A break that was over before anybody looked is one.
        let at = played.at(70);
        played.scope.broke(&name("web"), &name("run 3"), at);
        assert_eq!(played.look(70), HealthState::Unhealthy);
        // Long after the deadline: it was healthy once, so it is not failed.
        assert_eq!(played.blame("web", 75), HealthState::Unhealthy);
        assert_eq!(played.look(900), HealthState::Unhealthy);
    }

    #[test]
    fn a_renewed_deadline_counts_anew() {
        let mut played = Played::new();
        played.blame("web", 0);
        assert_eq!(played.look(300), HealthState::Failed);
        played.scope.renew(played.at(400));
        assert_eq!((played.look(400), played.due()), (HealthState::Pending, Some(700)));
        assert_eq!(played.look(700), HealthState::Failed);
        played.clear("web", 710);
        assert_eq!(played.look(720), HealthState::Healthy);
        // A restart while it is healthy: what is down then is on its way up.
        played.scope.renew(played.at(800));
        assert_eq!(played.look(800), HealthState::Healthy);
        assert_eq!(played.blame("web", 801), HealthState::Pending);
        played.clear("web", 805);
        assert_eq!(played.look(815), HealthState::Healthy);
        assert_eq!(played.blame("web", 816), HealthState::Unhealthy);
        played.scope.renew(played.at(820));
        assert_eq!(played.look(820), HealthState::Pending);
        assert_eq!(played.look(1120), HealthState::Failed);
        // One that came too late to explain a break.
        played.clear("web", 1130);
        played.look(1140);
        played.scope.renew(played.at(1200));
        assert_eq!(played.look(1500), HealthState::Healthy);
        assert_eq!(played.blame("web", 1500), HealthState::Unhealthy);
    }

    #[test]
    fn a_host_without_its_files_has_failed_until_they_are_read() {
        let mut played = Played::new();
        played.scope.unread = Some(name("/etc/kelson: the folder cannot be read"));
        assert_eq!((played.look(0), played.due()), (HealthState::Failed, None));
        assert_eq!(played.look(20), HealthState::Failed);
        played.scope.unread = None;
        assert_eq!((played.look(30), played.due()), (HealthState::Pending, Some(40)));
        assert_eq!(played.look(40), HealthState::Healthy);
    }

    #[test]
    fn no_minimum_is_healthy_at_once() {
        let spec = NodeHealthSpec { minimum: Duration::ZERO, ..SPEC };
        let now = Instant::now();
        let mut scope = Scope::new(now);
        assert!(scope.conclude(&spec, now));
        assert_eq!((scope.state, scope.due(&spec)), (HealthState::Healthy, None));
    }
}
