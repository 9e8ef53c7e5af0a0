//! What a check asks once, and what it makes of the answer.
//!
//! Each kind has a file of its own. All of them bound what they take from a peer, in bytes and in time, and say in a
//! short line what came of it.

mod grpc;
mod http;
mod stream;
mod tcp;
mod text;
mod tls;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use kelson_spec::service::{Asks, NetworkProbe};
use tokio::time::Instant;

use kelson_helper::probe::Verdict;

pub use tcp::Attempt;
pub use text::harmless;

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub verdict: Verdict,
    pub text: Cow<'static, str>,
}

impl Answer {
    fn passes(text: impl Into<Cow<'static, str>>) -> Answer {
        Answer { verdict: Verdict::Passes, text: text.into() }
    }

    fn fails(text: impl Into<Cow<'static, str>>) -> Answer {
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

    /// What `step` gives, or that there was no `what` in time.
    async fn bounds<T>(self, what: &str, step: impl Future<Output = Result<T, Answer>>) -> Result<T, Answer> {
        tokio::time::timeout_at(self.by, step).await.unwrap_or_else(|_| {
            let text = format!("no {what} within {}", kelson_sys::units::duration(self.timeout));
            Err(Answer { verdict: Verdict::Silent, text: text.into() })
        })
    }
}

/// A check as it is asked: what can be made ready is made once.
pub struct Question {
    address: SocketAddr,
    kind: Kind,
}

enum Kind {
    Tcp,
    Http(http::Get),
    Grpc(grpc::Call),
    /// It could not be made ready, and fails each time.
    Never(Answer),
}

impl Question {
    pub fn new(probe: &NetworkProbe) -> Question {
        let address = SocketAddr::new(probe.address, probe.port);
        let kind =
            match &probe.asks {
                Asks::Tcp => Kind::Tcp,
                Asks::Http(asks) => http::Get::new(asks, address)
                    .map_or_else(|why| Kind::Never(Answer::fails(why)), Kind::Http),
                Asks::Grpc(asks) => grpc::Call::new(asks, address)
                    .map_or_else(|why| Kind::Never(Answer::fails(why)), Kind::Grpc),
            };
        Question { address, kind }
    }

    /// Asks at once where that needs no waiting: a plain connection on this host is made before the call for it returns.
    pub fn attempt(&self) -> Attempt {
        match &self.kind {
            Kind::Tcp => tcp::attempt(self.address),
            Kind::Never(why) => Attempt::Done(why.clone()),
            Kind::Http(_) | Kind::Grpc(_) => Attempt::Takes(None),
        }
    }

    /// Goes on with what [`Question::attempt`] has begun.
    pub async fn ask(&self, begun: Option<tcp::Begun>, deadline: Deadline) -> Answer {
        let asked = match &self.kind {
            Kind::Tcp => tcp::finish(begun, self.address, deadline).await,
            Kind::Http(get) => get.ask(self.address, deadline).await,
            Kind::Grpc(call) => call.ask(self.address, deadline).await,
            Kind::Never(why) => Err(why.clone()),
        };
        asked.unwrap_or_else(|answer| answer)
    }
}
