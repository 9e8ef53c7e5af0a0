//! The end of the client's certificate, which is that of the session: a warning comes before it.

use std::io::Write as _;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tonic::metadata::MetadataMap;

/// So long before the end there is a warning.
const NOTICE: Duration = Duration::from_secs(60);

/// When a warning is due, and how it is written.
#[derive(Debug)]
pub struct Expiry {
    /// `None`: there is none, or it was given.
    due: Option<Instant>,
    left: Duration,
    /// The terminal is in raw mode, and the cursor may stand anywhere.
    raw: bool,
}

impl Expiry {
    /// The validity of our certificate, which the host reports with its answer. On the host itself it reports
    /// nothing.
    pub fn of(metadata: &MetadataMap, raw: bool) -> Expiry {
        let given =
            metadata.get(kelson_proto::call::ENDS_IN).and_then(|value| value.to_str().ok()?.parse().ok());
        let left = given.map(Duration::from_secs);
        let due = left.and_then(|left| Instant::now().checked_add(left.saturating_sub(NOTICE)));
        Expiry { due, left: left.unwrap_or_default().min(NOTICE), raw }
    }

    /// Awaits the time of the warning, and gives it once. Cancelled by dropping, without loss.
    pub async fn warn(&mut self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
        self.due = None;
        // Nobody is left to be warned when this fails.
        drop(std::io::stderr().lock().write_all(self.text().as_bytes()));
    }

    fn text(&self) -> String {
        let said = format!(
            "warning: the client's certificate ends in {} s, and this session with it; `kelsonctl gen config` makes a new one",
            self.left.as_secs()
        );
        if self.raw { format!("\r\n{said}\r\n") } else { said + "\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(seconds: &'static str) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        metadata.insert(kelson_proto::call::ENDS_IN, seconds.parse().unwrap());
        metadata
    }

    /// After how long the warning comes; `None`: it does not.
    async fn warned(metadata: &MetadataMap) -> Option<Duration> {
        let (begun, mut expiry) = (Instant::now(), Expiry::of(metadata, false));
        let year = Duration::from_secs(365 * 86_400);
        tokio::time::timeout(year, expiry.warn()).await.ok()?;
        let after = begun.elapsed();
        assert!(tokio::time::timeout(year, expiry.warn()).await.is_err(), "once");
        Some(after)
    }

    #[tokio::test(start_paused = true)]
    async fn one_minute_before_the_end() {
        for (seconds, after) in [("3600", 3540), ("61", 1), ("60", 0), ("5", 0), ("0", 0)] {
            let warned = warned(&given(seconds)).await.unwrap();
            assert_eq!(warned.as_secs(), after, "{seconds}");
        }
        assert_eq!(warned(&MetadataMap::new()).await, None);
        assert_eq!(warned(&given("soon")).await, None);
    }

    #[tokio::test]
    async fn in_raw_mode_it_has_lines_of_its_own() {
        let text = |raw| Expiry::of(&given("90"), raw).text();
        assert!(text(false).starts_with("warning: the client's certificate ends in 60 s, and this session"));
        assert!(text(true).starts_with("\r\nwarning: ") && text(true).ends_with("one\r\n"));
        assert!(Expiry::of(&given("7"), false).text().contains(" in 7 s"));
    }
}
