//! Facts about the host, which a process of its own reads: at once, and every ten seconds while somebody waits. Conditions
//! also see what others read meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::facts::FactTest;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::condition::{BoxFuture, Condition, Level, changed};
use crate::missing::{Missing, Reason, Subject};
use crate::on_demand::{OnDemand, publish};

/// How often the facts are read while somebody waits for one. A process does it.
const READ_EVERY: Duration = Duration::from_secs(10);

/// The values of the facts by their names, or why they are not known.
pub type FactsAnswer = Result<BTreeMap<String, String>, Arc<str>>;

/// A source that reads the facts of the host.
pub trait FactSource: Send + Sync + 'static {
    /// Takes at most some seconds. Cancelled by dropping.
    fn read(&self) -> BoxFuture<'_, FactsAnswer>;
}

/// A build that cannot read them. No file that it has read asks for one.
struct NoFacts;

impl FactSource for NoFacts {
    fn read(&self) -> BoxFuture<'_, FactsAnswer> {
        Box::pin(std::future::ready(Err(Arc::from("this build of Kelson does not read them"))))
    }
}

/// The facts of the host. Cheap to clone; clones share their one task.
#[derive(Clone)]
pub struct Facts {
    source: Arc<dyn FactSource>,
    /// `None`: not read yet.
    answer: Arc<OnDemand<Option<FactsAnswer>>>,
}

impl Facts {
    pub fn with_source(source: Arc<dyn FactSource>) -> Self {
        Facts { source, answer: Arc::default() }
    }

    /// Reads them now. Takes at most some seconds. Cancelled by dropping.
    ///
    /// # Errors
    /// Why they are not known, as a sentence.
    pub async fn read(&self) -> FactsAnswer {
        let answer = self.source.read().await;
        if answer.is_ok() {
            self.answer.offer(Some(answer.clone()));
        }
        answer
    }

    /// Holds while the fact is as asked.
    pub fn condition(&self, test: &FactTest) -> FactCondition {
        let source = Arc::clone(&self.source);
        let answer = self.answer.subscribe(|answer| async move {
            loop {
                publish(&answer, Some(source.read().await));
                sleep(READ_EVERY).await;
            }
        });
        FactCondition { test: test.clone(), answer }
    }
}

impl Default for Facts {
    fn default() -> Self {
        Facts::with_source(Arc::new(NoFacts))
    }
}

/// Holds while a fact is as asked.
pub struct FactCondition {
    test: FactTest,
    answer: watch::Receiver<Option<FactsAnswer>>,
}

impl Condition for FactCondition {
    fn level(&self) -> Level {
        let answer = self.answer.borrow();
        // Facts that cannot be read say nothing, so `not` does not hold either.
        let facts = answer.as_ref().and_then(|answer| answer.as_ref().ok());
        facts.map(|facts| facts.get(&self.test.name).is_some_and(|value| self.test.holds(value))).into()
    }

    fn missing(&self) -> Vec<Missing> {
        if self.holds() {
            return Vec::new();
        }
        let reason = match &*self.answer.borrow() {
            None => None,
            Some(Err(why)) => Some(Reason::NotRead(Arc::clone(why))),
            Some(Ok(facts)) => Some(match facts.get(&self.test.name) {
                Some(value) => Reason::Value(Arc::from(value.as_str())),
                None => Reason::NoFact,
            }),
        };
        vec![Missing { subject: Subject::Fact(self.test.clone()), reason }]
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        changed(&mut self.answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::{Instant, timeout};

    use super::*;

    struct Played {
        platform: Mutex<Result<&'static str, &'static str>>,
        read: AtomicUsize,
    }

    impl FactSource for Played {
        fn read(&self) -> BoxFuture<'_, FactsAnswer> {
            self.read.fetch_add(1, Ordering::Relaxed);
            let answer = match *self.platform.lock().unwrap() {
                Ok(platform) => Ok(BTreeMap::from([("platform".to_owned(), platform.to_owned())])),
                Err(why) => Err(Arc::from(why)),
            };
            Box::pin(async move {
                sleep(Duration::from_millis(20)).await;
                answer
            })
        }
    }

    fn played(platform: Result<&'static str, &'static str>) -> (Arc<Played>, Facts) {
        let played = Arc::new(Played { platform: Mutex::new(platform), read: AtomicUsize::new(0) });
        (Arc::clone(&played), Facts::with_source(played))
    }

    fn test(name: &str, is: &[&str]) -> FactTest {
        let is = is.iter().map(|one| (*one).to_owned()).collect();
        FactTest { name: name.to_owned(), is, at_least: None }
    }

    fn text(condition: &FactCondition) -> String {
        crate::missing::sentence(&condition.missing())
    }

    #[tokio::test(start_paused = true)]
    async fn a_fact_is_known_once_it_is_read_and_one_reader_serves_all() {
        let (played, facts) = played(Ok("aws"));
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut wanted = facts.condition(&test("platform", &["gcp", "a?s"]));
        let mut other = facts.condition(&test("platform", &["gcp", "azure"]));
        let mut none = facts.condition(&test("hardware.vendor", &[]));
        assert_eq!(
            (wanted.level(), text(&wanted)),
            (Level::Unknown, "fact platform to be gcp or a?s".to_owned())
        );
        assert_eq!(wanted.known(deadline).await, Level::Holds);
        assert_eq!(other.known(deadline).await, Level::DoesNotHold);
        assert_eq!(none.known(deadline).await, Level::DoesNotHold);
        assert_eq!(text(&wanted), "");
        assert_eq!(text(&other), "fact platform to be gcp or azure (it is aws)");
        assert_eq!(text(&none), "fact hardware.vendor (this host does not have it)");
        assert_eq!(played.read.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_waits_learns_of_a_change_and_later_ones_ask_again() {
        let (played, facts) = played(Err("no process"));
        let mut condition = facts.condition(&test("platform", &["metal"]));
        assert_eq!(condition.known(Instant::now() + Duration::from_secs(5)).await, Level::Unknown);
        assert_eq!(text(&condition), "fact platform to be metal (no process)");
        *played.platform.lock().unwrap() = Ok("metal");
        timeout(READ_EVERY * 2, condition.wait()).await.expect("it is read again");
        // What somebody else reads is seen at once, and that it failed says nothing.
        *played.platform.lock().unwrap() = Ok("aws");
        facts.read().await.unwrap();
        assert_eq!(condition.level(), Level::DoesNotHold);
        *played.platform.lock().unwrap() = Err("too many look already");
        facts.read().await.unwrap_err();
        assert_eq!(condition.level(), Level::DoesNotHold);
        drop(condition);
        while facts.answer.is_running() {
            tokio::task::yield_now().await;
        }
        let before = played.read.load(Ordering::Relaxed);
        sleep(READ_EVERY * 100).await;
        assert_eq!(played.read.load(Ordering::Relaxed), before);
        *played.platform.lock().unwrap() = Ok("aws");
        facts.read().await.unwrap();
        assert_eq!(facts.condition(&test("platform", &[])).level(), Level::Unknown);
    }
}
