//! Feeding: a task of the main loop, so that food comes only as long as that loop turns.
//!
//! While the host runs, that is all that it has to prove. In a shutdown it has to get on as well: each step says how
//! long it may take, and when it takes longer there is no more food, however well the loop turns.

use std::borrow::Cow;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use kelson_sys::watchdog::Device;

/// The part of a device that the feeding needs.
pub trait Feed: Send + Sync {
    /// # Errors
    /// When the device refuses.
    fn feed(&self) -> std::io::Result<()>;
}

impl Feed for Device {
    fn feed(&self) -> std::io::Result<()> {
        Device::feed(self)
    }
}

/// By when the next sign of progress is to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The step that is under way.
    pub step: Cow<'static, str>,
    pub at: Instant,
}

/// Feeds at once, then at each interval, and whenever another step begins. Never returns.
pub async fn feed(device: impl AsRef<dyn Feed>, every: Duration, mut due: watch::Receiver<Option<Due>>) {
    let mut refused = false;
    let mut told: Option<Due> = None;
    loop {
        let late = due.borrow_and_update().clone().filter(|due| Instant::now() >= due.at);
        match late {
            Some(due) if told.as_ref() == Some(&due) => {}
            Some(due) => {
                tracing::error!(
                    "{} takes longer than allowed: the hardware watchdog is no longer kept alive and will reset this machine",
                    due.step
                );
                told = Some(due);
            }
            None => {
                let result = device.as_ref().feed();
                if let (Err(error), false) = (&result, refused) {
                    tracing::error!("the hardware watchdog refuses a keep-alive: {error}");
                }
                refused = result.is_err();
            }
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            // Where nobody can name a step any more, the loop has to turn and nothing else.
            () = changed(&mut due) => {}
        }
    }
}

async fn changed(due: &mut watch::Receiver<Option<Due>>) {
    if due.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    /// Writes down when it was fed.
    #[derive(Default)]
    struct Fed(Mutex<Vec<Instant>>);

    impl Feed for Fed {
        fn feed(&self) -> io::Result<()> {
            self.0.lock().unwrap().push(Instant::now());
            Err(io::Error::other("a refusal changes nothing"))
        }
    }

    struct Case {
        fed: Arc<Fed>,
        due: watch::Sender<Option<Due>>,
        begun: Instant,
    }

    const EVERY: Duration = Duration::from_secs(10);

    fn case() -> Case {
        let (fed, due) = (Arc::new(Fed::default()), watch::Sender::new(None));
        let device: Arc<dyn Feed> = fed.clone();
        tokio::spawn(feed(device, EVERY, due.subscribe()));
        Case { fed, due, begun: Instant::now() }
    }

    impl Case {
        /// Lets the seconds pass, and returns those since the beginning in which it was fed.
        async fn after(&self, seconds: u64) -> Vec<u64> {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let fed = self.fed.0.lock().unwrap();
            fed.iter().map(|at| at.duration_since(self.begun).as_secs()).collect()
        }

        fn step(&self, bound: u64) {
            let at = Instant::now() + Duration::from_secs(bound);
            self.due.send_replace(Some(Due { step: "a step".into(), at }));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_fed_at_once_and_while_the_loop_turns() {
        let case = case();
        assert_eq!(case.after(35).await, [0, 10, 20, 30]);
    }

    /// On the real clock: while this one thread is held, time passes and nobody feeds.
    #[tokio::test]
    async fn it_is_not_fed_while_the_loop_stands_still() {
        let (fed, every) = (Arc::new(Fed::default()), Duration::from_millis(1));
        let device: Arc<dyn Feed> = fed.clone();
        let due = watch::Sender::new(None);
        tokio::spawn(feed(device, every, due.subscribe()));
        let times = || fed.0.lock().unwrap().len();
        let more_than = async |before| {
            while times() <= before {
                tokio::time::sleep(every).await;
            }
        };
        more_than(1).await;
        let before = times();
        std::thread::sleep(every * 100);
        assert_eq!(times(), before);
        more_than(before).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_takes_too_long_gets_no_more_food() {
        let case = case();
        assert_eq!(case.after(5).await, [0]);
        case.step(25);
        // With the step at 5, at 15 and 25; at 30 it was to be over.
        assert_eq!(case.after(100).await, [0, 5, 15, 25]);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_steps_one_after_the_other_are_fed() {
        let case = case();
        for _ in 0..4 {
            case.step(30);
            case.after(25).await;
        }
        let fed = case.after(0).await;
        assert!(fed.windows(2).all(|pair| pair[1] - pair[0] <= EVERY.as_secs()), "{fed:?}");
        assert!(fed.last().is_some_and(|last| *last >= 95), "{fed:?}");
        // Then one that hangs; one that came to its end late is forgiven.
        assert_eq!(case.after(100).await.last(), Some(&95));
        case.step(30);
        assert_eq!(case.after(1).await.last(), Some(&200));
    }

    #[tokio::test(start_paused = true)]
    async fn without_steps_again_the_loop_has_to_turn_and_nothing_else() {
        let case = case();
        case.step(5);
        case.after(1).await;
        case.due.send_replace(None);
        let fed = case.after(1000).await;
        assert!(fed.last().is_some_and(|last| *last >= 990), "{fed:?}");
    }
}
