//! The duty of one kind of helper, as its [`Supervisor`](super::Supervisor) needs to know it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use kelson_proto::v1::HelperPong;
use prost::Message;
use tokio::time::Instant;

use super::heartbeat::Expectations;
use super::lifecycle::End;
use crate::launch::{Launched, Start};
use crate::transport::Packet;

/// An order that waits to be sent. It becomes a message when it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order<O> {
    Ping,
    /// End in order, within this time.
    Stop {
        within: Duration,
    },
    Own(O),
}

/// The consequence of a message of the helper.
#[derive(Debug)]
pub enum Reply<O> {
    Nothing,
    /// It answers a ping.
    Pong(HelperPong),
    /// This is to be sent.
    Order(O),
    /// It is no message: the helper is replaced.
    Broken(String),
}

/// The duty of one kind of helper.
pub trait Duty: Expectations {
    type Order;
    /// PID 1 to the helper.
    type Command: Message;
    /// The helper to PID 1.
    type Report: Message + Default;

    /// How the helper is started, with this end of its socket.
    ///
    /// # Errors
    /// When something that it needs is missing.
    fn start(&self, control: OwnedFd) -> io::Result<Start> {
        Ok(Start::new(Vec::new(), control))
    }

    /// The orders for a helper that has just been started, or was taken over after a re-exec.
    fn orders(&self) -> Vec<Self::Order>;

    /// The message and its descriptors; `None`: it is not needed any more.
    fn command(
        &mut self,
        order: &Order<Self::Order>,
        now: Instant,
    ) -> Option<(Self::Command, Vec<BorrowedFd<'_>>)>;

    /// The order has gone out; or, with an error, cannot be sent at all.
    fn sent(&mut self, order: Order<Self::Order>, result: io::Result<()>, now: Instant);

    fn received(&mut self, packet: Packet<Self::Report>, now: Instant) -> Reply<Self::Order>;

    /// A helper has this socket from now on. `restarts`: how often there was another before it.
    fn connected(&mut self, _control: BorrowedFd<'_>, _process: &Launched, _restarts: u32) {}

    /// This socket is about to be closed.
    fn closing(&mut self, _control: BorrowedFd<'_>) {}

    /// A new helper has sent its first message.
    fn up(&mut self, now: Instant);

    /// A helper has ended, or could not be started.
    fn ended(&mut self, end: &End, now: Instant);

    fn publish(&mut self, status: &Status);
}

/// A helper as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// `None` while none runs.
    pub pid: Option<i32>,
    /// It has answered since it was started.
    pub up: bool,
    /// Since when it has been as it is now.
    pub since: Instant,
    /// How often it was replaced without being asked to end.
    pub restarts: u32,
    /// Why it is as it is.
    pub message: Arc<str>,
}

impl Status {
    /// Before the first is started.
    pub fn new(message: &str) -> Status {
        Status { pid: None, up: false, since: Instant::now(), restarts: 0, message: message.into() }
    }
}
