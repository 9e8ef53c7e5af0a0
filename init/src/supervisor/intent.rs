//! How the run of the host is to end: the first request decides.
//!
//! A power off replaces a reboot that has not reached its final call (somebody is about to pull the plug); nothing
//! else replaces anything.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kelson_services::host::ShutdownAction;
use kelson_services::state_store::{Kind, StateStore};
use tokio::sync::watch;

use crate::boot::history::since_kernel;

/// The end of the host that is under way.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Intent {
    /// An action that a later release has asked for and this one does not know becomes a reboot.
    #[serde(default = "reboot")]
    pub action: ShutdownAction,
    /// The initiator, for messages.
    #[serde(default)]
    pub reason: String,
    /// When the end was first asked for, since the kernel's start: what bounds it counts from there, in all
    /// incarnations of PID 1.
    #[serde(default = "since_kernel")]
    pub begun: Duration,
    /// The exit status of the run, once a service has decided it.
    #[serde(default)]
    pub status: Option<u8>,
}

fn reboot() -> ShutdownAction {
    ShutdownAction::Reboot
}

impl Intent {
    /// Returns the part of `total` that is left at `now`, a time since the kernel's start.
    fn left_at(&self, total: Duration, now: Duration) -> Duration {
        total.saturating_sub(now.saturating_sub(self.begun))
    }

    /// Returns the part of `total` that is left; it began when the end was first asked for.
    pub fn left_of(&self, total: Duration) -> Duration {
        self.left_at(total, since_kernel())
    }
}

/// The words of messages.
pub fn verb(action: ShutdownAction) -> &'static str {
    match action {
        ShutdownAction::Reboot => "reboot",
        ShutdownAction::Kexec => "reboot by kexec",
        ShutdownAction::PowerOff => "power off",
        ShutdownAction::Halt => "halt",
    }
}

/// Whether a request for `new` replaces an end that is under way: somebody is about to pull the plug.
fn is_replaced(under_way: ShutdownAction, new: ShutdownAction) -> bool {
    use ShutdownAction::{Kexec, PowerOff, Reboot};
    matches!((under_way, new), (Reboot | Kexec, PowerOff))
}

/// The one intent of this incarnation of the host. Cheap to clone.
#[derive(Clone)]
pub struct Intents {
    current: Arc<watch::Sender<Option<Intent>>>,
    store: Arc<OnceLock<StateStore>>,
}

impl Default for Intents {
    fn default() -> Self {
        Intents { current: Arc::new(watch::channel(None).0), store: Arc::default() }
    }
}

impl Intents {
    /// From now on the intent is written down before it is published: it goes on in the next incarnation.
    pub fn remember_in(&self, store: StateStore) {
        self.current.send_if_modified(|current| {
            let store = self.store.get_or_init(|| store);
            if let Some(intent) = current {
                store.write(Kind::Intent, "", intent);
            }
            false
        });
    }

    fn remember(&self, intent: &Intent) {
        if let Some(store) = self.store.get() {
            store.write(Kind::Intent, "", intent);
        }
    }

    /// Takes a request in and answers with what is really under way.
    pub fn ask(&self, action: ShutdownAction, reason: &str) -> String {
        self.ask_for(action, reason, None)
    }

    /// As [`Intents::ask`] for a power off, with the exit status of the service that has ended.
    pub fn end_with(&self, status: u8, reason: &str) -> String {
        self.ask_for(ShutdownAction::PowerOff, reason, Some(status))
    }

    /// Gives the run an exit status, where no service has decided it by its end.
    pub fn settle(&self, status: u8) {
        self.current.send_if_modified(|current| match current {
            Some(intent) if intent.status.is_none() => {
                intent.status = Some(status);
                self.remember(intent);
                true
            }
            _ => false,
        });
    }

    /// Asks for a reboot after `wait`; zero: never.
    pub fn reboot_after(&self, wait: Duration, reason: &'static str) {
        if wait.is_zero() {
            return;
        }
        tracing::warn!("this machine starts again in {} s ({reason})", wait.as_secs());
        let intents = self.clone();
        kelson_sys::spawn(async move {
            tokio::time::sleep(wait).await;
            intents.ask(ShutdownAction::Reboot, reason);
        });
    }

    fn ask_for(&self, action: ShutdownAction, reason: &str, status: Option<u8>) -> String {
        let mut answer = String::new();
        self.current.send_if_modified(|current| match current {
            None => {
                answer = format!("{} has begun", verb(action));
                let intent = Intent { action, reason: reason.to_owned(), begun: since_kernel(), status };
                self.remember(current.insert(intent));
                true
            }
            Some(under_way) if is_replaced(under_way.action, action) => {
                answer = format!(
                    "{} replaces the {} that was asked for by {}",
                    verb(action),
                    verb(under_way.action),
                    under_way.reason
                );
                *under_way = Intent { action, reason: reason.to_owned(), begun: under_way.begun, status };
                self.remember(under_way);
                true
            }
            Some(under_way) => {
                answer = format!(
                    "{} is under way already, asked for by {}",
                    verb(under_way.action),
                    under_way.reason
                );
                false
            }
        });
        answer
    }

    /// Goes on with what was under way in the previous incarnation.
    pub fn resume(&self, before: Intent) {
        self.current.send_modify(|current| match current {
            // Asked for in this incarnation already, and it replaces what was under way.
            Some(now) if is_replaced(before.action, now.action) => {
                now.begun = before.begun;
            }
            _ => *current = Some(before),
        });
    }

    pub fn current(&self) -> Option<Intent> {
        self.current.borrow().clone()
    }

    pub fn watch(&self) -> watch::Receiver<Option<Intent>> {
        self.current.subscribe()
    }

    /// Returns once the run of the host is to end.
    pub async fn asked(&self) -> Intent {
        let mut watch = self.watch();
        loop {
            if let Some(intent) = watch.borrow_and_update().clone() {
                return intent;
            }
            if watch.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ShutdownAction::{Halt, Kexec, PowerOff, Reboot};

    #[test]
    fn v4_it_is_written_down_before_it_is_answered() {
        use kelson_services::state_store::{Incarnation, Past};
        let folder = std::env::temp_dir().join(format!("kelson-intents-{}", std::process::id()));
        let incarnation = Incarnation::current().unwrap();
        let written = || {
            let mut past = Past::take(&folder, &incarnation).unwrap();
            past.paper::<Intent>(Kind::Intent, "").map(|intent| (intent.action, intent.reason))
        };
        let intents = Intents::default();
        intents.ask(Reboot, "alice");
        // A request from before there was a place for it is written as soon as there is one.
        intents.remember_in(StateStore::create(&folder, &incarnation).unwrap());
        assert_eq!(written(), Some((Reboot, "alice".to_owned())));
        intents.ask(PowerOff, "bob");
        assert_eq!(written(), Some((PowerOff, "bob".to_owned())));
        intents.ask(Halt, "carol");
        assert_eq!(written(), Some((PowerOff, "bob".to_owned())));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn v4_what_bounds_the_end_counts_from_its_first_request() {
        let total = Duration::from_secs(60);
        let before = Intent {
            action: Reboot,
            reason: "alice".to_owned(),
            begun: since_kernel().saturating_sub(total / 2),
            status: None,
        };
        assert_eq!(before.left_at(total, before.begun), total);
        assert_eq!(before.left_at(total, before.begun + total / 3), total / 3 * 2);
        assert_eq!(before.left_at(total, before.begun + total * 2), Duration::ZERO);
        assert_eq!(before.left_at(total, Duration::ZERO), total, "a time that cannot be is none");

        // In the next incarnation, whether or not somebody asks there before the old request was found.
        let begun = before.begun;
        for asked in [None, Some(Reboot), Some(PowerOff)] {
            let intents = Intents::default();
            if let Some(action) = asked {
                intents.ask(action, "bob");
            }
            intents.resume(before.clone());
            let now = intents.current().unwrap();
            assert_eq!((now.begun, now.action), (begun, asked.unwrap_or(Reboot)));
            assert_eq!(now.reason, if asked == Some(PowerOff) { "bob" } else { "alice" });
            intents.ask(PowerOff, "carol");
            assert_eq!(intents.current().unwrap().begun, begun, "it replaces the action, not the time");
        }
        let intents = Intents::default();
        intents.ask(Reboot, "bob");
        intents.resume(Intent { action: PowerOff, ..before });
        assert_eq!(intents.current().unwrap().action, PowerOff);
    }

    #[test]
    fn s5_it_happens_once_as_first_asked_but_a_power_off_replaces_a_reboot() {
        let intents = Intents::default();
        assert_eq!(intents.ask(Reboot, "alice"), "reboot has begun");
        assert_eq!(intents.ask(Reboot, "bob"), "reboot is under way already, asked for by alice");
        assert_eq!(intents.ask(Halt, "bob"), "reboot is under way already, asked for by alice");
        assert_eq!(intents.ask(PowerOff, "bob"), "power off replaces the reboot that was asked for by alice");
        assert_eq!(intents.ask(Reboot, "carol"), "power off is under way already, asked for by bob");
        assert_eq!(intents.current().map(|intent| intent.action), Some(PowerOff));
    }

    #[test]
    fn the_service_that_ends_the_run_decides_its_status() {
        let intents = Intents::default();
        intents.settle(7);
        assert_eq!(intents.current(), None, "nobody has asked for an end");
        intents.end_with(3, "the end of web");
        intents.settle(143);
        assert_eq!(intents.current().map(|intent| (intent.action, intent.status)), Some((PowerOff, Some(3))));
        // Its end in a stop that somebody has asked for is no decision, and counts all the same.
        let intents = Intents::default();
        intents.ask(PowerOff, "alice");
        intents.end_with(3, "the end of web");
        assert_eq!(intents.current().unwrap().status, None);
        intents.settle(143);
        assert_eq!(intents.current().unwrap().status, Some(143));
    }

    const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/state");

    /// The contents of the stored state of each release, beside those that the services store.
    fn stored() -> (Intent, crate::reexec::ReexecState) {
        let limit = kelson_spec::service::ResourceLimit { resource: 7, soft: 1024, hard: 4096 };
        let reexec_state = crate::reexec::ReexecState {
            count: 3,
            crashes: 4,
            reason: "an upgrade".to_owned(),
            limits: vec![limit],
            oom_score: None,
        };
        (
            Intent {
                action: PowerOff,
                reason: "user 0".to_owned(),
                begun: Duration::from_secs(77),
                status: None,
            },
            reexec_state,
        )
    }

    /// A copy of the stored state of a release, as far as papers need it.
    fn copy_of(folder: &std::path::Path) -> std::path::PathBuf {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap();
        let to = std::env::temp_dir().join(format!("kelson-stored-{}-{name}", std::process::id()));
        std::fs::create_dir_all(to.join("papers")).unwrap();
        for file in [
            "services",
            "events",
            "checks",
            "health",
            "exits",
            "descriptors",
            "papers/intent",
            "papers/rebirth",
        ] {
            std::fs::copy(folder.join(file), to.join(file)).unwrap();
        }
        to
    }

    /// The stored state of a release. Its owner is that of all of them.
    fn past_of(folder: &std::path::Path) -> kelson_services::state_store::Past {
        let boot = "6f1c0b52-9a57-4c0f-8a43-5c1d1f2e7a90".to_owned();
        let incarnation = kelson_services::state_store::Incarnation { boot, start_time: 4711 };
        kelson_services::state_store::Past::take(folder, &incarnation).unwrap()
    }

    #[test]
    fn the_stored_intents_of_each_release_are_read() {
        let folders = std::fs::read_dir(STORED).unwrap().map(|folder| folder.unwrap());
        let folders = folders.filter(|folder| folder.path().is_dir() && folder.file_name() != "0.1.0");
        let mut releases = 0;
        for folder in folders {
            let copy = copy_of(&folder.path());
            let mut past = past_of(&copy);
            let (intent, reexec_state) = stored();
            assert_eq!(past.paper::<Intent>(Kind::Intent, ""), Some(intent), "{:?}", folder.path());
            let read = past.paper::<crate::reexec::ReexecState>(Kind::ReexecState, "");
            assert_eq!(format!("{read:?}"), format!("{:?}", Some(reexec_state)), "{:?}", folder.path());
            assert_eq!(past.doubts, Vec::<String>::new());
            std::fs::remove_dir_all(copy).unwrap();
            releases += 1;
        }
        assert!(releases > 1, "there is no stored state: run hack/state-fixture");
    }

    /// For hack/state-fixture.
    #[test]
    #[ignore = "writes to tests/state"]
    fn record_stored_state() {
        let (intent, reexec_state) = stored();
        let store = |release: &str| past_of(&std::path::Path::new(STORED).join(release)).store;
        let own = store(env!("CARGO_PKG_VERSION"));
        own.write(Kind::Intent, "", &intent);
        own.write(Kind::ReexecState, "", &reexec_state);
        let later = store("variant");
        later.write(Kind::Intent, "", &Later { known: intent, later: [1] });
        later.write(Kind::ReexecState, "", &Later { known: reexec_state, later: [1] });
    }

    /// A paper with a field of a later release.
    #[derive(serde::Serialize)]
    struct Later<T> {
        #[serde(flatten)]
        known: T,
        later: [u8; 1],
    }
    #[tokio::test(start_paused = true)]
    async fn a_reboot_comes_after_its_time_and_never_after_none() {
        for (seconds, ends) in [(30, true), (0, false)] {
            let intents = Intents::default();
            intents.reboot_after(Duration::from_secs(seconds), "a test");
            tokio::time::sleep(Duration::from_secs(29)).await;
            assert_eq!(intents.current(), None);
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(intents.current().map(|intent| intent.action), ends.then_some(Reboot));
        }
    }

    #[test]
    fn a_power_off_replaces_a_reboot_by_kexec_and_a_reboot_does_not() {
        let intents = Intents::default();
        intents.ask(Kexec, "one");
        assert_eq!(intents.ask(Reboot, "two"), "reboot by kexec is under way already, asked for by one");
        let answer = intents.ask(PowerOff, "three");
        assert_eq!(answer, "power off replaces the reboot by kexec that was asked for by one");
    }
}
