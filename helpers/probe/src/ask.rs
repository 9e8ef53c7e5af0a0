//! Asks a check once, and judges the answer.
//!
//! Each kind has a file of its own. All of them bound what they take from a peer, in bytes and in time, and say in a
//! short line what came of it.

mod answer;
mod call;
mod csi;
mod grpc;
mod http;
mod stream;
mod tcp;
mod text;
mod tls;

use std::net::SocketAddr;

use kelson_spec::service::{Asks, NetworkProbe, Probe};

use answer::Unaskable;
pub use answer::{Answer, Deadline};
pub use tcp::Attempt;
pub use text::harmless;

/// A check as it is asked: what can be made ready is made once.
pub enum Question {
    Tcp(SocketAddr),
    Http(http::Get, SocketAddr),
    Grpc(grpc::Check, SocketAddr),
    Csi(csi::Plugin),
    /// It could not be made ready, and fails each time.
    Never(Answer),
}

impl Question {
    pub fn new(probe: &Probe) -> Question {
        let question = match probe {
            Probe::Network(NetworkProbe { address, port, asks }) => {
                let address = SocketAddr::new(*address, *port);
                match asks {
                    Asks::Tcp => Ok(Question::Tcp(address)),
                    Asks::Http(asks) => http::Get::new(asks, address).map(|get| Question::Http(get, address)),
                    Asks::Grpc(asks) => {
                        grpc::Check::new(asks, address).map(|check| Question::Grpc(check, address))
                    }
                }
            }
            Probe::Csi { socket } => csi::Plugin::new(socket).map(Question::Csi),
            Probe::Exec { .. } | Probe::Volume(_) => Err(Unaskable::Elsewhere),
        };
        question.unwrap_or_else(|why| Question::Never(Answer::fails(why.to_string())))
    }

    /// Asks at once where that needs no waiting: a plain connection on this host is made before the call for it returns.
    pub fn attempt(&self) -> Attempt {
        match self {
            Question::Tcp(address) => tcp::attempt(*address),
            Question::Never(why) => Attempt::Done(why.clone()),
            Question::Http(..) | Question::Grpc(..) | Question::Csi(_) => Attempt::Takes(None),
        }
    }

    /// Goes on with what [`Question::attempt`] has begun.
    pub async fn ask(&self, begun: Option<tcp::Begun>, deadline: Deadline) -> Answer {
        let asked = match self {
            Question::Tcp(address) => tcp::finish(begun, *address, deadline).await,
            Question::Http(get, address) => get.ask(*address, deadline).await,
            Question::Grpc(check, address) => check.ask(*address, deadline).await,
            Question::Csi(plugin) => plugin.ask(deadline).await,
            Question::Never(why) => Err(why.clone()),
        };
        asked.unwrap_or_else(|answer| answer)
    }
}
