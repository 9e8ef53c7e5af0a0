//! Services that must not run while the host is cut off from the store of its fleet.
//!
//! Each has a deadline that counts from the last confirmation of the store, by the clock that a suspend does not stop and nobody
//! sets. With the first confirmation after it those that were stopped start again, unless an operator has stopped them since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::fleet::{Disconnect, OnReconnect};
use tokio::time::Instant;

use crate::model::{Snapshot, State};
use crate::service_runner::words;

/// While the store does not answer the time is looked at so often: a suspend ends without a word.
const LOOK: Duration = Duration::from_secs(1);
/// The store answers more often than that.
const SILENCE: Duration = Duration::from_secs(30);

/// What is to be done with services.
#[derive(Debug, PartialEq, Eq)]
pub enum Act {
    /// With the reason.
    Stop(Vec<Arc<str>>, String),
    Start(Vec<Arc<str>>),
    /// It has to look at its files from templates.
    Renew(Arc<str>),
    /// The store has confirmed its registration, which it waits for; or why it has not.
    Registered(Arc<str>, Option<Arc<str>>),
}

/// See the module. All times are of `CLOCK_BOOTTIME`.
pub struct CutOff {
    clock: fn() -> Duration,
    /// Of PID 1's first incarnation.
    started: Duration,
    /// The last confirmation of the store; the inner `None`: there was none since the boot. `None`: the helper has not said yet.
    contact: Option<Option<Duration>>,
    /// Those that run, or are to.
    running: BTreeMap<Arc<str>, Disconnect>,
    /// Those that were stopped for this reason, and start again.
    waiting: BTreeMap<Arc<str>, Disconnect>,
    /// Those that the present silence has stopped: who starts one of them nevertheless is obeyed.
    stopped: BTreeSet<Arc<str>>,
}

impl CutOff {
    pub fn new(clock: fn() -> Duration) -> CutOff {
        CutOff {
            clock,
            started: clock(),
            contact: None,
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            stopped: BTreeSet::new(),
        }
    }

    /// PID 1 started so long ago.
    pub fn began(&mut self, ago: Duration) {
        self.started = (self.clock)().saturating_sub(ago);
    }

    /// A service is so now; `None`: there is none of this name.
    pub fn follow(&mut self, service: &Arc<str>, snapshot: Option<&Snapshot>) {
        self.running.remove(service);
        self.waiting.remove(service);
        let Some(snapshot) = snapshot else { return };
        let Some(disconnect) = snapshot.spec.as_ref().and_then(|spec| spec.disconnect) else {
            return;
        };
        if !snapshot.state.at_rest() {
            self.running.insert(Arc::clone(service), disconnect);
        } else if snapshot.state == State::Stopped
            && disconnect.on_reconnect == OnReconnect::Start
            && words::is_cut_off(&snapshot.message)
        {
            self.waiting.insert(Arc::clone(service), disconnect);
        }
    }

    /// The store has confirmed the registration at this time, or has not since the boot.
    pub fn confirmed(&mut self, contact: Option<Duration>) {
        if self.contact != Some(contact) {
            self.contact = Some(contact);
            self.stopped.clear();
        }
    }

    fn deadline(&self, disconnect: &Disconnect) -> Option<Duration> {
        Some(match self.contact? {
            Some(contact) => contact.saturating_add(disconnect.stop_after),
            None => self.started.saturating_add(disconnect.startup_grace),
        })
    }

    /// What is to be done now.
    pub fn acts(&mut self) -> Vec<Act> {
        let now = (self.clock)();
        let is_due = |disconnect: &Disconnect| self.deadline(disconnect).is_some_and(|at| at <= now);
        let has_contact = self.contact.is_some_and(|contact| contact.is_some());
        let mut stops: BTreeMap<String, Vec<Arc<str>>> = BTreeMap::new();
        for (service, disconnect) in &self.running {
            if is_due(disconnect) && !self.stopped.contains(service) {
                let time = if has_contact { disconnect.stop_after } else { disconnect.startup_grace };
                stops.entry(words::cut_off(time, has_contact)).or_default().push(Arc::clone(service));
            }
        }
        let starts: Vec<Arc<str>> = match has_contact {
            true => {
                self.waiting.iter().filter(|(_, it)| !is_due(it)).map(|(name, _)| Arc::clone(name)).collect()
            }
            false => Vec::new(),
        };
        self.stopped.extend(stops.values().flatten().cloned());
        // Once: whether it starts shows in its state.
        starts.iter().for_each(|service| _ = self.waiting.remove(service));
        let mut acts: Vec<Act> = stops.into_iter().map(|(why, services)| Act::Stop(services, why)).collect();
        if !starts.is_empty() {
            acts.push(Act::Start(starts));
        }
        acts
    }

    /// When to ask again although nothing has happened.
    pub fn wake(&self) -> Option<Instant> {
        let now = (self.clock)();
        let pending = self.running.iter().filter(|(service, _)| !self.stopped.contains(*service));
        let next = pending.filter_map(|(_, disconnect)| self.deadline(disconnect)).min()?;
        let last = self.contact.flatten().unwrap_or(self.started);
        let is_silent = now.saturating_sub(last) > SILENCE;
        let left = next.saturating_sub(now);
        Instant::now().checked_add(if is_silent { left.min(LOOK) } else { left })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kelson_spec::ServiceSpec;

    use super::*;

    thread_local! {
        static NOW: Cell<Duration> = const { Cell::new(Duration::from_secs(1000)) };
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(seconds: u64) {
        NOW.set(secs(seconds));
    }

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().copied().map(Arc::from).collect()
    }

    struct Host(CutOff);

    impl Host {
        /// PID 1 started at 990 s.
        fn new() -> Host {
            at(1000);
            let mut cut_off = CutOff::new(|| NOW.get());
            cut_off.began(secs(10));
            Host(cut_off)
        }

        fn service(&mut self, name: &str, state: State, message: &str, on_reconnect: OnReconnect) {
            let disconnect = Disconnect { stop_after: secs(600), startup_grace: secs(300), on_reconnect };
            let spec =
                ServiceSpec { name: name.to_owned(), disconnect: Some(disconnect), ..ServiceSpec::default() };
            let name: Arc<str> = Arc::from(name);
            let snapshot = Snapshot {
                spec: Some(Arc::new(spec)),
                ..Snapshot::new(Arc::clone(&name), state, Arc::from(message))
            };
            self.0.follow(&name, Some(&snapshot));
        }

        fn runs(&mut self, name: &str) {
            self.service(name, State::Running, "", OnReconnect::Start);
        }

        fn stopped(&mut self, name: &str) {
            let message = format!("stopped: {}", words::cut_off(secs(600), true));
            self.service(name, State::Stopped, &message, OnReconnect::Start);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn services_with_one_deadline_stop_together_and_none_before() {
        let mut host = Host::new();
        (0..50).for_each(|number| host.runs(&format!("web-{number}")));
        // Before the helper has said when the store answered nothing is known.
        at(9000);
        assert_eq!((host.0.acts(), host.0.wake()), (vec![], None));
        at(1000);
        host.0.confirmed(Some(secs(995)));
        assert_eq!(host.0.wake(), Some(Instant::now() + secs(595)));
        at(1594);
        assert_eq!(host.0.acts(), []);
        at(1595);
        let acts = host.0.acts();
        let [Act::Stop(services, why)] = &acts[..] else { panic!("{acts:?}") };
        assert_eq!(
            (services.len(), why.as_str()),
            (50, "the store of the fleet has not confirmed the registration for 10m")
        );
        // Who starts one of them nevertheless is obeyed.
        host.runs("web-7");
        assert_eq!((host.0.acts(), host.0.wake()), (vec![], None));
    }

    #[test]
    fn an_answer_in_time_stops_nothing() {
        let mut host = Host::new();
        host.runs("web");
        host.0.confirmed(Some(secs(995)));
        at(1594);
        host.0.confirmed(Some(secs(1594)));
        at(2193);
        assert_eq!(host.0.acts(), []);
        at(2194);
        assert_eq!(host.0.acts().len(), 1);
    }

    #[test]
    fn without_an_answer_since_the_boot_the_grace_counts() {
        let mut host = Host::new();
        host.runs("web");
        host.0.confirmed(None);
        at(1289);
        assert_eq!(host.0.acts(), []);
        at(1290);
        let why =
            "the store of the fleet has not confirmed the registration within 5m of the start".to_owned();
        assert_eq!(host.0.acts(), [Act::Stop(names(&["web"]), why)]);
    }

    #[test]
    fn with_an_answer_those_start_that_it_stopped_and_that_nobody_has_stopped_since() {
        let mut host = Host::new();
        host.stopped("web");
        host.service("left", State::Stopped, "stopped: asked by an operator", OnReconnect::Start);
        let message = format!("stopped while preparing: {}", words::cut_off(secs(600), true));
        host.service("stays", State::Stopped, &message, OnReconnect::Leave);
        // An earlier incarnation of PID 1 has stopped them: the last answer is an old one.
        host.0.confirmed(Some(secs(300)));
        assert_eq!(host.0.acts(), []);
        host.0.confirmed(Some(secs(1000)));
        assert_eq!(host.0.acts(), [Act::Start(names(&["web"]))]);
        assert_eq!(host.0.acts(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_store_is_silent_the_time_is_looked_at_each_second() {
        let mut host = Host::new();
        host.runs("web");
        host.0.confirmed(Some(secs(995)));
        at(1026);
        assert_eq!(host.0.wake(), Some(Instant::now() + LOOK));
    }
}
