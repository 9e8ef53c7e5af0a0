//! Whether enough instances of a name are registered in the fleet of the host. A helper asks the store; its answers come
//! through a channel, which knows what they are worth at the present time.

use std::future::pending;
use std::sync::Arc;

use kelson_spec::fleet::Instances;
use tokio::sync::watch;

use crate::answers::{Answer, Answers, Count};
use crate::condition::{BoxFuture, Condition, Level, changed};
use crate::missing::{Missing, Reason, Subject};

/// The registry of the fleet. Cheap to clone. By default the host has none.
#[derive(Clone, Default)]
pub struct Registered(Option<watch::Receiver<Answers>>);

impl Registered {
    pub fn new(answers: watch::Receiver<Answers>) -> Registered {
        Registered(Some(answers))
    }

    pub fn has_fleet(&self) -> bool {
        self.0.is_some()
    }

    /// Holds while there are enough of these.
    pub fn condition(&self, instances: &Instances) -> RegisteredCondition {
        RegisteredCondition { instances: Arc::new(instances.clone()), answers: self.0.clone() }
    }
}

/// Holds while enough instances are registered.
pub struct RegisteredCondition {
    instances: Arc<Instances>,
    /// `None`: the host is in no fleet.
    answers: Option<watch::Receiver<Answers>>,
}

impl RegisteredCondition {
    fn answer(&self) -> Option<Answer> {
        self.answers.as_ref()?.borrow().get(&*self.instances).copied()
    }

    fn is_enough(&self, answer: Answer) -> bool {
        matches!(answer, Answer::Registered(Count { count, .. }) if count >= self.instances.min)
    }
}

impl Condition for RegisteredCondition {
    fn level(&self) -> Level {
        match self.answers {
            Some(_) => self.answer().map(|answer| self.is_enough(answer)).into(),
            None => Level::DoesNotHold,
        }
    }

    fn missing(&self) -> Vec<Missing> {
        let reason = match (&self.answers, self.answer()) {
            (None, _) => Reason::NoFleet,
            (_, None) => Reason::Unanswered,
            (_, Some(answer)) if self.is_enough(answer) => return Vec::new(),
            (_, Some(Answer::Silent)) => Reason::SilentRegistry(self.instances.stale_for),
            (_, Some(Answer::Registered(count))) => Reason::TooFew { count, min: self.instances.min },
        };
        vec![Missing { subject: Subject::Registered(Arc::clone(&self.instances)), reason: Some(reason) }]
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        match &mut self.answers {
            Some(answers) => changed(answers),
            None => Box::pin(pending()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use tokio::time::timeout;

    use super::*;
    use crate::missing::sentence;

    fn primary(min: u32) -> Instances {
        Instances { name: "postgres".into(), tag: Some("primary".into()), min, ..Instances::default() }
    }

    fn registered(count: u32, all: u32, as_of: Option<SystemTime>) -> Answer {
        Answer::Registered(Count { count, all, as_of })
    }

    #[tokio::test(start_paused = true)]
    async fn it_holds_while_there_are_enough_and_says_what_is_missing() {
        let (publish, answers) = watch::channel(Answers::new());
        let wanted = primary(2);
        let mut condition = Registered::new(answers).condition(&wanted);
        assert_eq!(condition.level(), Level::Unknown);
        let at = UNIX_EPOCH + Duration::from_secs(1_764_000_000);
        let text = "registered postgres with tag primary";
        assert_eq!(sentence(&condition.missing()), format!("{text} (the registry has not answered yet)"));
        for (answer, missing) in [
            (registered(1, 3, None), " (1 of 2; 2 without the tag)"),
            (registered(1, 1, None), " (1 of 2)"),
            (registered(2, 2, None), ""),
            (registered(2, 2, Some(at)), ""),
            (
                registered(0, 0, Some(at)),
                " (0 of 2; as of 2025-11-24T16:00:00Z, the registry does not answer)",
            ),
            (Answer::Silent, " (the registry has not answered for 10m)"),
        ] {
            publish.send_replace(Answers::from([(wanted.clone(), answer)]));
            timeout(Duration::from_secs(1), condition.changed()).await.expect("it changes");
            assert_eq!(condition.level(), missing.is_empty().into());
            let whole = if missing.is_empty() { String::new() } else { format!("{text}{missing}") };
            assert_eq!(sentence(&condition.missing()), whole);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_without_a_fleet_says_so() {
        let mut condition = Registered::default().condition(&Instances { tag: None, ..primary(1) });
        assert_eq!(condition.level(), Level::DoesNotHold);
        let text = "registered postgres (this machine has no fleet; write fleet in its machine file)";
        assert_eq!(sentence(&condition.missing()), text);
        assert!(timeout(Duration::from_secs(60), condition.changed()).await.is_err());
    }
}
