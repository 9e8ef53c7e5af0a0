//! How the run of the host is to end: asked for once, by whoever comes first.
//!
//! A power off replaces a reboot that has not reached its final call (somebody is about to pull the plug); nothing
//! else replaces anything.

use kelson_services::host::ShutdownAction;
use tokio::sync::watch;

/// What is under way.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Intent {
    pub action: ShutdownAction,
    /// Who asked, for messages.
    pub reason: String,
}

/// The words of messages.
pub fn verb(action: ShutdownAction) -> &'static str {
    match action {
        ShutdownAction::Reboot => "reboot",
        ShutdownAction::PowerOff => "power off",
        ShutdownAction::Halt => "halt",
    }
}

/// The one intent of this life of the host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Intents {
    current: std::sync::Arc<watch::Sender<Option<Intent>>>,
}

impl Default for Intents {
    fn default() -> Self {
        Intents { current: std::sync::Arc::new(watch::channel(None).0) }
    }
}

impl Intents {
    /// Takes a request in and answers with what is really under way.
    pub fn ask(&self, action: ShutdownAction, reason: &str) -> String {
        let mut answer = String::new();
        self.current.send_if_modified(|current| match current {
            None => {
                answer = format!("{} has begun", verb(action));
                *current = Some(Intent { action, reason: reason.to_owned() });
                true
            }
            Some(under_way)
                if under_way.action == ShutdownAction::Reboot && action == ShutdownAction::PowerOff =>
            {
                answer = format!("power off replaces the reboot that was asked for by {}", under_way.reason);
                *under_way = Intent { action, reason: reason.to_owned() };
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
    use ShutdownAction::{Halt, PowerOff, Reboot};

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
}
