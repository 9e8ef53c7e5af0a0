//! A check that PID 1 asks itself: one future that waits until it is due, asks, and is replaced.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::prober::{CheckAnswer, Verdict};
use kelson_runner::BoxFuture;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::plan::{Answer, Probe};

/// The outcome of asking a check.
pub struct Asked {
    pub answer: CheckAnswer,
    /// Ends when what was begun has.
    pub ending: Option<BoxFuture<'static, ()>>,
}

/// Waits until the check is due, then asks. `ending` is what is left of the time before.
pub fn ask(
    probe: Arc<dyn Probe>,
    due: Instant,
    timeout: Duration,
    ending: Option<BoxFuture<'static, ()>>,
) -> BoxFuture<'static, Asked> {
    Box::pin(async move {
        sleep_until(due).await;
        let at = SystemTime::now();
        let begun = Instant::now();
        let Answer { verdict, output, ending } = match outlived(ending, after(begun, timeout)).await {
            Some(ending) => Answer {
                verdict: Verdict::Fails,
                output: "the last one was killed and has not ended yet".into(),
                ending: Some(ending),
            },
            None => {
                let deadline = after(Instant::now(), timeout);
                timeout_at(deadline, probe.ask(deadline)).await.unwrap_or_else(|_| Answer {
                    verdict: Verdict::Silent,
                    output: String::new(),
                    ending: None,
                })
            }
        };
        let answer = CheckAnswer { at, took: begun.elapsed(), verdict, text: output.into() };
        Asked { answer, ending }
    })
}

/// Returns the ending that is not complete by the deadline.
async fn outlived(
    ending: Option<BoxFuture<'static, ()>>,
    deadline: Instant,
) -> Option<BoxFuture<'static, ()>> {
    let mut ending = ending?;
    match timeout_at(deadline, ending.as_mut()).await {
        Ok(()) => None,
        Err(_) => Some(ending),
    }
}

/// A year is the longest that a file can ask for; what does not fit is as good as never.
pub fn after(from: Instant, pause: Duration) -> Instant {
    from.checked_add(pause).or_else(|| from.checked_add(Duration::from_secs(365 * 86_400))).unwrap_or(from)
}

/// Up to a tenth longer: checks that began together do not beat together.
pub fn with_jitter(pause: Duration, chance: u32) -> Duration {
    let part = pause.checked_div(10_230).unwrap_or_default();
    pause.saturating_add(part.saturating_mul(chance % 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_a_tenth_at_most() {
        let pause = Duration::from_secs(5);
        for chance in [0, 1, 1023, 1024, u32::MAX] {
            let with = with_jitter(pause, chance);
            assert!(with >= pause && with <= pause + pause / 10, "{chance}: {with:?}");
        }
        assert!(with_jitter(pause, 1023) > pause + pause / 11);
        assert!(with_jitter(Duration::MAX, 7) == Duration::MAX);
    }
}
