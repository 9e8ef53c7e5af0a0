//! How often something that may pass is tried again, and after which pauses.

use std::time::Duration;

use kelson_helper::random::Random;

use crate::error::PullError;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// A registry may ask for a longer pause, up to this.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// The tries of one request. Each pause is twice as long as the one before it, with jitter.
#[derive(Debug)]
pub struct Retry {
    left: u32,
    most: u32,
    pause: Duration,
    random: Random,
}

impl Retry {
    /// At most `most` failures in a row.
    pub fn new(most: u32) -> Retry {
        Retry { left: most, most, pause: FIRST_PAUSE, random: Random::seeded() }
    }

    /// Something was achieved: the failures before do not count any more.
    pub fn progress(&mut self) {
        self.left = self.most;
        self.pause = FIRST_PAUSE;
    }

    /// Waits until another try makes sense.
    ///
    /// # Errors
    /// The error itself, where it will not pass or has come too often.
    pub async fn after(&mut self, error: PullError) -> Result<(), PullError> {
        let Some(pause) = self.pause(&error) else { return Err(error) };
        tokio::time::sleep(pause).await;
        Ok(())
    }

    fn pause(&mut self, error: &PullError) -> Option<Duration> {
        let asked = error.passes()?;
        self.left = self.left.checked_sub(1).filter(|left| *left > 0)?;
        let own = self.pause.saturating_add(self.random.part_of(self.pause));
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
        Some(asked.map_or(own, |asked| asked.min(LONGEST_ASKED).max(own)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(after: Option<u64>) -> PullError {
        let after = after.map(Duration::from_secs);
        PullError::Busy { host: "r".to_owned(), status: 429, what: "x".to_owned(), after }
    }

    #[test]
    fn pauses_grow_until_the_tries_are_used_up() {
        let mut retry = Retry::new(4);
        let pauses: Vec<Duration> = std::iter::from_fn(|| retry.pause(&busy(None))).collect();
        assert_eq!(pauses.len(), 3);
        for (pause, least) in pauses.iter().zip([500, 1000, 2000]) {
            let least = Duration::from_millis(least);
            assert!((least..least * 2).contains(pause), "{pauses:?}");
        }
        retry.progress();
        assert!(retry.pause(&busy(None)).is_some_and(|pause| pause < Duration::from_secs(1)));
    }

    #[test]
    fn a_registry_may_ask_for_a_longer_pause_and_not_for_a_day() {
        let pause = |after| Retry::new(9).pause(&busy(Some(after))).unwrap();
        assert_eq!(pause(7), Duration::from_secs(7));
        assert!(pause(0) >= FIRST_PAUSE);
        assert_eq!(pause(86_400), LONGEST_ASKED);
    }

    #[test]
    fn a_refusal_is_not_tried_again() {
        let denied = PullError::Denied { host: "r".to_owned(), what: "x".to_owned(), why: "no" };
        assert!(Retry::new(9).pause(&denied).is_none());
    }
}
