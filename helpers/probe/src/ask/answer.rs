//! The answer of a check, or the reason why it cannot be asked.

use std::borrow::Cow;
use std::time::Duration;

use kelson_helper::probe::Verdict;
use thiserror::Error;
use tokio::time::Instant;
use tokio_rustls::rustls::client::VerifierBuilderError;
use tokio_rustls::rustls::pki_types::pem;

/// Why a check cannot be asked.
#[derive(Debug, Error)]
pub enum Unaskable {
    #[error("PID 1 runs commands and looks at volumes itself")]
    Elsewhere,
    #[error("{0:?} is no path: {1}")]
    Path(String, hyper::http::uri::InvalidUri),
    #[error("{0:?} is not the name of a header")]
    HeaderName(String),
    #[error("{0:?} is not the value of a header")]
    HeaderValue(String),
    #[error("{0:?} {1}")]
    Pattern(String, kelson_spec::pattern::Mistake),
    #[error("{0:?} is no name of a server")]
    Authority(String),
    #[error("{0:?} is no name that a certificate can be for")]
    TlsName(String),
    #[error("TLS cannot be set up: {0}")]
    Tls(tokio_rustls::rustls::Error),
    #[error("the CA cannot be read: {0}")]
    CaText(pem::Error),
    #[error("the CA cannot be used: {0}")]
    Ca(tokio_rustls::rustls::Error),
    #[error("the CA cannot be used: {0}")]
    Chain(VerifierBuilderError),
}

/// The answer of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub verdict: Verdict,
    pub text: Cow<'static, str>,
}

impl Answer {
    pub fn passes(text: impl Into<Cow<'static, str>>) -> Answer {
        Answer { verdict: Verdict::Passes, text: text.into() }
    }

    pub fn fails(text: impl Into<Cow<'static, str>>) -> Answer {
        Answer { verdict: Verdict::Fails, text: text.into() }
    }
}

/// The end of one asking, by its timeout.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    by: Instant,
    timeout: Duration,
}

impl Deadline {
    pub fn new(now: Instant, timeout: Duration) -> Deadline {
        Deadline { by: now.checked_add(timeout).unwrap_or(now), timeout }
    }

    /// Waits for the outcome of `step`, or reports that there was no `what` in time.
    pub async fn bounds<T>(
        self,
        what: &str,
        step: impl Future<Output = Result<T, Answer>>,
    ) -> Result<T, Answer> {
        tokio::time::timeout_at(self.by, step).await.unwrap_or_else(|_| {
            let text = format!("no {what} within {}", kelson_sys::units::duration(self.timeout));
            Err(Answer { verdict: Verdict::Silent, text: text.into() })
        })
    }
}
