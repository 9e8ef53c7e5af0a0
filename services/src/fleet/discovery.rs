//! What services wait for in the registry of the fleet, and what the last answers of the store are worth now.
//!
//! An answer stays when the store does not answer any more, and counts as long as the service file says. All times are of
//! the clock that a suspend does not stop and nobody sets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_conditions::{Answer, Answers, Count};
use kelson_proto::v1::{FleetFound, FleetInterest, FleetWanted};
use kelson_spec::fleet::{FleetSpec, Instances};
use kelson_spec::service::Requirement;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::model::Snapshot;

/// While the store does not answer the time is looked at so often: a suspend ends without a word.
const LOOK: Duration = Duration::from_secs(1);
/// The store answers more often than that.
const SILENCE: Duration = FleetSpec::TTL;

/// A name, and a tag where one is asked for.
type Wanted = (String, Option<String>);

/// See the module.
pub struct Discovery {
    clock: fn() -> Duration,
    /// By service; none that waits for nothing.
    wanted: BTreeMap<Arc<str>, Vec<Instances>>,
    /// All of them: since when this incarnation of PID 1 wants to know it, and how often they are wanted.
    since: BTreeMap<Instances, (Duration, usize)>,
    /// With the tag, and with it or without.
    found: BTreeMap<Wanted, (u32, u32)>,
    /// When the store last confirmed what was found, also by the time of day.
    at: Option<(Duration, SystemTime)>,
    publish: watch::Sender<Answers>,
    /// The helper knows what is wanted.
    is_sent: bool,
}

impl Discovery {
    pub fn new(clock: fn() -> Duration, publish: watch::Sender<Answers>) -> Discovery {
        Discovery {
            clock,
            wanted: BTreeMap::new(),
            since: BTreeMap::new(),
            found: BTreeMap::new(),
            at: None,
            publish,
            is_sent: true,
        }
    }

    /// A service is so now; `None`: there is none of this name.
    pub fn follow(&mut self, service: &Arc<str>, snapshot: Option<&Snapshot>) {
        let mut wanted = Vec::new();
        if let Some(spec) = snapshot.and_then(|snapshot| snapshot.spec.as_ref()) {
            for list in [&spec.depends, &spec.when] {
                Requirement::each_of(list, &mut |entry| {
                    if let Requirement::Registered { instances, .. } = entry {
                        wanted.push(instances.clone());
                    }
                });
            }
        }
        let is_same = match self.wanted.get(service) {
            Some(before) => *before == wanted,
            None => wanted.is_empty(),
        };
        if is_same {
            return;
        }
        let now = (self.clock)();
        for one in &wanted {
            let (_, count) = self.since.entry(one.clone()).or_insert((now, 0));
            *count = count.saturating_add(1);
        }
        let before = match wanted.is_empty() {
            true => self.wanted.remove(service),
            false => self.wanted.insert(Arc::clone(service), wanted),
        };
        before.iter().flatten().for_each(|one| self.drop_one(one));
        self.is_sent = false;
    }

    /// It is wanted once less.
    fn drop_one(&mut self, instances: &Instances) {
        let Some((_, count)) = self.since.get_mut(instances) else { return };
        *count = count.saturating_sub(1);
        if *count > 0 {
            return;
        }
        self.since.remove(instances);
        let key = key_of(instances);
        if !self.since.keys().any(|one| key_of(one) == key) {
            self.found.remove(&key);
        }
    }

    /// Whether the helper has to be sent what is wanted. Asked once.
    pub fn has_changed(&mut self) -> bool {
        !std::mem::replace(&mut self.is_sent, true)
    }

    pub fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    /// All that is wanted.
    pub fn interest(&self) -> FleetInterest {
        let mut all: Vec<Wanted> = self.since.keys().map(key_of).collect();
        all.dedup();
        let wanted = all.into_iter().map(|(name, tag)| FleetWanted { name, tag: tag.unwrap_or_default() });
        FleetInterest { wanted: wanted.collect() }
    }

    /// The helper has counted.
    pub fn found(&mut self, found: FleetFound) {
        let Some(FleetWanted { name, tag }) = found.wanted else { return };
        let key = (name, Some(tag).filter(|tag| !tag.is_empty()));
        if self.since.keys().any(|one| key_of(one) == key) {
            self.found.insert(key, (found.count, found.all));
        }
    }

    /// The store has confirmed what was found.
    pub fn confirmed(&mut self, at: Duration) {
        // The next helper may not know of the last confirmation to the one before.
        if self.at.is_none_or(|(before, _)| before < at) {
            let ago = (self.clock)().saturating_sub(at);
            self.at = SystemTime::now().checked_sub(ago).map(|wall| (at, wall));
        }
    }

    fn answer(&self, instances: &Instances, since: Duration, now: Duration) -> Option<Answer> {
        let found = self.found.get(&key_of(instances)).zip(self.at);
        let last = found.map_or(since, |(_, (at, _))| at);
        if now >= last.saturating_add(instances.stale_for) {
            return Some(Answer::Silent);
        }
        let ((count, all), (at, wall)) = found.map(|(found, at)| (*found, at))?;
        let as_of = (now >= at.saturating_add(SILENCE)).then_some(wall);
        Some(Answer::Registered(Count { count, all, as_of }))
    }

    /// Publishes what is known now.
    pub fn publish(&self) {
        let now = (self.clock)();
        let answers = self.since.iter();
        let answers: Answers = answers
            .filter_map(|(one, (since, _))| Some((one.clone(), self.answer(one, *since, now)?)))
            .collect();
        self.publish.send_if_modified(|last| {
            let differs = *last != answers;
            if differs {
                *last = answers;
            }
            differs
        });
    }

    /// When to publish again although nothing has happened.
    pub fn wake(&self) -> Option<Instant> {
        let now = (self.clock)();
        let ends = self.since.iter().map(|(one, (since, _))| {
            let found = self.found.get(&key_of(one)).and(self.at);
            found.map_or(*since, |(at, _)| at).saturating_add(one.stale_for)
        });
        let stale = self.at.filter(|_| !self.is_empty()).map(|(at, _)| at.saturating_add(SILENCE));
        let next = ends.chain(stale).filter(|end| *end > now).min()?;
        let left = next.saturating_sub(now);
        let is_silent = self.at.is_none_or(|(at, _)| now >= at.saturating_add(SILENCE));
        Instant::now().checked_add(if is_silent { left.min(LOOK) } else { left })
    }
}

fn key_of(instances: &Instances) -> Wanted {
    (instances.name.clone(), instances.tag.clone())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kelson_spec::ServiceSpec;
    use kelson_spec::service::WhenDown;

    use super::*;
    use crate::model::State;

    thread_local! {
        static NOW: Cell<Duration> = const { Cell::new(Duration::from_secs(1000)) };
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn postgres(tag: Option<&str>, stale_for: Duration) -> Instances {
        Instances { name: "postgres".into(), tag: tag.map(str::to_owned), stale_for, ..Instances::default() }
    }

    struct Host {
        discovery: Discovery,
        answers: watch::Receiver<Answers>,
    }

    impl Host {
        fn new() -> Host {
            NOW.set(secs(1000));
            let (publish, answers) = watch::channel(Answers::new());
            Host { discovery: Discovery::new(|| NOW.get(), publish), answers }
        }

        fn service(&mut self, name: &str, wanted: &[Instances]) {
            let registered = |instances: &Instances| Requirement::Registered {
                instances: instances.clone(),
                when_down: WhenDown::Stop,
            };
            let depends = wanted.iter().map(registered).collect();
            let spec = ServiceSpec { name: name.to_owned(), depends, ..ServiceSpec::default() };
            let name: Arc<str> = Arc::from(name);
            let snapshot = Snapshot {
                spec: Some(Arc::new(spec)),
                ..Snapshot::new(Arc::clone(&name), State::Waiting, Arc::from(""))
            };
            self.discovery.follow(&name, Some(&snapshot));
        }

        fn found(&mut self, tag: &str, count: u32, all: u32) {
            let wanted = Some(FleetWanted { name: "postgres".into(), tag: tag.into() });
            self.discovery.found(FleetFound { wanted, count, all });
        }

        fn answer(&self, at: u64, instances: &Instances) -> Option<Answer> {
            NOW.set(secs(at));
            self.discovery.publish();
            self.answers.borrow().get(instances).copied()
        }

        /// Count and whether it is an old one.
        fn count(&self, at: u64, instances: &Instances) -> (u32, bool) {
            match self.answer(at, instances) {
                Some(Answer::Registered(count)) => (count.count, count.as_of.is_some()),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn the_helper_is_sent_each_name_and_tag_once() {
        let mut host = Host::new();
        assert!(!host.discovery.has_changed() && host.discovery.is_empty());
        let (any, primary) = (postgres(None, secs(600)), postgres(Some("primary"), secs(600)));
        host.service("app", &[primary.clone(), any.clone()]);
        host.service("other", &[postgres(Some("primary"), secs(60))]);
        assert!(host.discovery.has_changed());
        assert!(!host.discovery.has_changed());
        let tags: Vec<String> = host.discovery.interest().wanted.into_iter().map(|one| one.tag).collect();
        assert_eq!(tags, ["", "primary"]);
        // The same again is no change.
        host.service("app", &[primary.clone(), any.clone()]);
        assert!(!host.discovery.has_changed());
        host.found("primary", 1, 1);
        host.discovery.confirmed(secs(1000));
        host.service("app", &[]);
        host.discovery.follow(&Arc::from("other"), None);
        assert!(host.discovery.has_changed() && host.discovery.is_empty());
        host.discovery.publish();
        assert!(host.answers.borrow().is_empty());
        // What is no longer wanted is not remembered.
        host.service("app", std::slice::from_ref(&primary));
        assert_eq!(host.answer(1001, &primary), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_answer_stays_until_it_is_too_old() {
        let mut host = Host::new();
        let (primary, short) = (postgres(Some("primary"), secs(600)), postgres(Some("primary"), secs(60)));
        host.service("app", &[primary.clone(), short.clone()]);
        assert_eq!(host.answer(1010, &primary), None);
        host.found("primary", 1, 3);
        // Without its time it is worth nothing.
        assert_eq!(host.answer(1010, &primary), None);
        host.discovery.confirmed(secs(1005));
        assert_eq!(host.count(1034, &primary), (1, false));
        assert_eq!(host.discovery.wake(), Some(Instant::now() + secs(1)));
        assert_eq!(host.count(1035, &primary), (1, true));
        assert_eq!(host.count(1064, &short), (1, true));
        assert_eq!(host.answer(1065, &short), Some(Answer::Silent));
        assert_eq!(host.discovery.wake(), Some(Instant::now() + LOOK));
        assert_eq!(host.count(1604, &primary), (1, true));
        assert_eq!(host.answer(1605, &primary), Some(Answer::Silent));
        assert_eq!(host.discovery.wake(), None);
        host.discovery.confirmed(secs(1610));
        assert_eq!(host.count(1612, &primary), (1, false));
        assert_eq!(host.discovery.wake(), Some(Instant::now() + secs(28)));
    }

    #[test]
    fn without_any_answer_nothing_is_known_until_the_time_is_over() {
        let mut host = Host::new();
        let primary = postgres(Some("primary"), secs(60));
        host.service("app", std::slice::from_ref(&primary));
        assert_eq!(host.answer(1059, &primary), None);
        assert_eq!(host.answer(1060, &primary), Some(Answer::Silent));
        // The helper before this one knew it, some time ago.
        host.found("primary", 0, 0);
        host.discovery.confirmed(secs(1030));
        assert_eq!(host.count(1070, &primary), (0, true));
    }
}
