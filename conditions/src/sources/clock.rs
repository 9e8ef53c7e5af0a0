//! Whether the kernel's clock is synchronised.
//!
//! The kernel knows (adjtimex(2)) but tells nobody of a change, so it is asked: once by each question, which
//! costs a system call that cannot wait, and every second while somebody waits for a change, by one task for
//! all. Each finding goes through one watch channel, whose count of changes keeps every waiter from missing
//! one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::condition::{BoxFuture, Condition, Level, changed};
use crate::missing::{Missing, Subject};
use crate::on_demand::{OnDemand, publish};

/// How often the kernel is asked while somebody waits.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// A source that knows whether the clock is right.
pub trait ClockSource: Send + Sync + 'static {
    /// Must not wait.
    fn synchronised(&self) -> bool;
}

/// The kernel, through adjtimex(2).
pub struct KernelClock;

impl ClockSource for KernelClock {
    fn synchronised(&self) -> bool {
        kelson_sys::clock::is_synchronised()
    }
}

/// The clock of the host. Cheap to clone; clones share their one task.
#[derive(Clone)]
pub struct Clock {
    source: Arc<dyn ClockSource>,
    /// The last answer that anyone got.
    answer: Arc<watch::Sender<bool>>,
    /// Its task asks every second, while there are receivers.
    asking: Arc<OnDemand<()>>,
}

impl Clock {
    pub fn with_source(source: Arc<dyn ClockSource>) -> Self {
        Clock { source, answer: Arc::new(watch::Sender::new(false)), asking: Arc::default() }
    }

    /// Holds while the clock is synchronised.
    pub fn condition(&self) -> ClockCondition {
        self.ask();
        ClockCondition { clock: self.clone(), answer: self.answer.subscribe() }
    }

    fn ask(&self) -> bool {
        let synchronised = self.source.synchronised();
        publish(&self.answer, synchronised);
        synchronised
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::with_source(Arc::new(KernelClock))
    }
}

/// Holds while the clock is synchronised.
pub struct ClockCondition {
    clock: Clock,
    answer: watch::Receiver<bool>,
}

impl Condition for ClockCondition {
    fn level(&self) -> Level {
        self.clock.ask().into()
    }

    fn missing(&self) -> Vec<Missing> {
        if self.holds() { Vec::new() } else { vec![Subject::TimeSynced.into()] }
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let clock = self.clock.clone();
            let _asking = self.clock.asking.subscribe(|_| async move {
                loop {
                    clock.ask();
                    sleep(ASK_EVERY).await;
                }
            });
            changed(&mut self.answer).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use tokio::time::{Instant, timeout};

    use super::*;

    #[derive(Default)]
    struct Fake {
        synchronised: AtomicBool,
        asked: AtomicUsize,
    }

    impl ClockSource for Fake {
        fn synchronised(&self) -> bool {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.synchronised.load(Ordering::Relaxed)
        }
    }

    fn fake() -> (Arc<Fake>, Clock) {
        let fake = Arc::new(Fake::default());
        (Arc::clone(&fake), Clock::with_source(fake))
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_learns_of_both_changes_within_a_second() {
        let (fake, clock) = fake();
        let mut condition = clock.condition();
        assert_eq!(condition.missing(), [Subject::TimeSynced.into()]);
        let start = Instant::now();
        tokio::spawn({
            let fake = Arc::clone(&fake);
            async move {
                sleep(Duration::from_millis(4500)).await;
                fake.synchronised.store(true, Ordering::Relaxed);
            }
        });
        condition.wait().await;
        assert_eq!(start.elapsed().as_secs(), 5);
        assert_eq!(condition.missing(), []);
        fake.synchronised.store(false, Ordering::Relaxed);
        timeout(Duration::from_secs(2), condition.changed()).await.expect("it is wrong again");
        assert!(!condition.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_asked_while_nobody_waits() {
        let (fake, clock) = fake();
        let mut one = clock.condition();
        let mut other = clock.condition();
        let before = fake.asked.load(Ordering::Relaxed);
        assert!(
            timeout(Duration::from_millis(9500), async { tokio::join!(one.wait(), other.wait()) })
                .await
                .is_err()
        );
        let asked = fake.asked.load(Ordering::Relaxed) - before;
        assert!((10..=13).contains(&asked), "two waiters share one task: {asked}");
        // The task sees that its last receiver is gone, and ends.
        while clock.asking.is_running() {
            tokio::task::yield_now().await;
        }
        let before = fake.asked.load(Ordering::Relaxed);
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(fake.asked.load(Ordering::Relaxed), before);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_between_two_questions_is_not_missed() {
        let (fake, clock) = fake();
        let mut condition = clock.condition();
        assert!(!condition.holds());
        fake.synchronised.store(true, Ordering::Relaxed);
        assert_eq!(condition.missing(), []);
        timeout(Duration::from_millis(1), condition.changed()).await.expect("the first answer was another");
    }
}
