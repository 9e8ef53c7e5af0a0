//! The body of an answer, as it comes: bounded, and cut off when it stalls.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use tokio::time::{Instant, timeout_at};

use crate::error::PullError;

/// At least `LEAST` bytes, or the end, must arrive within this time.
const STALL: Duration = Duration::from_secs(20);
const LEAST: usize = 4 << 10;

pub struct Body {
    incoming: Incoming,
    host: String,
    /// What it is, in an error.
    what: String,
    deadline: Instant,
    since: usize,
}

impl Body {
    pub fn of(answer: Response<Incoming>, host: &str, what: &str) -> Body {
        Body {
            incoming: answer.into_body(),
            host: host.to_owned(),
            what: what.to_owned(),
            deadline: deadline(),
            since: 0,
        }
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// When the connection was cut, or has stalled.
    pub async fn next(&mut self) -> Result<Option<Bytes>, PullError> {
        loop {
            let frame = match timeout_at(self.deadline, self.incoming.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Err(self.cut(error.to_string())),
                Ok(None) => return Ok(None),
                Err(_) => return Err(self.cut(format!("it stalled for {} s", STALL.as_secs()))),
            };
            let Ok(bytes) = frame.into_data() else { continue };
            self.since = self.since.saturating_add(bytes.len());
            if self.since >= LEAST {
                (self.since, self.deadline) = (0, deadline());
            }
            return Ok(Some(bytes));
        }
    }

    /// All of it, at most `most` bytes.
    ///
    /// # Errors
    /// As of [`next`](Self::next), and when it is longer.
    pub async fn whole(mut self, most: u64) -> Result<Vec<u8>, PullError> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.next().await? {
            if whole.len().saturating_add(bytes.len()) as u64 > most {
                let (host, what) = (self.host, self.what);
                return Err(PullError::Long { host, what, most });
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    fn cut(&self, text: String) -> PullError {
        PullError::Cut { host: self.host.clone(), what: self.what.clone(), text }
    }
}

fn deadline() -> Instant {
    let now = Instant::now();
    now.checked_add(STALL).unwrap_or(now)
}
