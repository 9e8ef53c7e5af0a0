//! Asks a check once, and judges the answer.
//!
//! Each kind has a file of its own. All of them bound what they take from a peer, in bytes and in time, and say in a
//! short line what came of it.

mod answer;
mod grpc;
mod http;
mod stream;
mod tcp;
mod text;
mod tls;

use std::net::SocketAddr;

use kelson_spec::service::{Asks, NetworkProbe};

pub use answer::{Answer, Deadline};
pub use tcp::Attempt;
pub use text::harmless;

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
        let kind = match &probe.asks {
            Asks::Tcp => Ok(Kind::Tcp),
            Asks::Http(asks) => http::Get::new(asks, address).map(Kind::Http),
            Asks::Grpc(asks) => grpc::Call::new(asks, address).map(Kind::Grpc),
        };
        let kind = kind.unwrap_or_else(|why| Kind::Never(Answer::fails(why.to_string())));
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
