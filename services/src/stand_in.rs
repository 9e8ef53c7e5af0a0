//! Stands for a helper process in tests of PID 1's side of it: it answers pings, and the test answers the rest.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex};

use kelson_helper::transport::{self, FROM_HELPER, Packet, Receiver, TO_HELPER};
use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start, supervisor};
use kelson_proto::v1::{HelperPing, HelperPong};
use kelson_sys::descriptor::Watched;
use prost::Message;
use tokio::io::Interest;
use tokio::sync::{mpsc, oneshot};

/// What each helper is asked, besides its own work.
pub enum Sent<W> {
    Ping(HelperPing),
    Stop,
    Own(W),
}

/// The messages of one kind of helper; `W`: its own work.
pub trait Words: Send + Sync + 'static {
    type Command: Message + Default + Send;
    type Report: Message + Send;
    type Own: Send;

    fn sent(command: Self::Command) -> Sent<Self::Own>;
    fn pong(pong: HelperPong) -> Self::Report;
}

/// See the module.
pub struct StandIn<W: Words> {
    sent: mpsc::UnboundedSender<W::Own>,
    now: Mutex<Option<(OwnedFd, oneshot::Sender<()>)>>,
}

impl<W: Words> StandIn<W> {
    /// The helper, and what it is sent.
    pub fn new() -> (Arc<StandIn<W>>, mpsc::UnboundedReceiver<W::Own>) {
        let (sender, sent) = mpsc::unbounded_channel();
        (Arc::new(StandIn { sent: sender, now: Mutex::default() }), sent)
    }

    pub fn report(&self, report: &W::Report) {
        let now = self.now.lock().unwrap();
        let (socket, _) = now.as_ref().unwrap();
        transport::send(socket.as_fd(), report, FROM_HELPER, &[]).unwrap();
    }

    pub fn crash(&self) {
        self.now.lock().unwrap().take().unwrap().1.send(()).unwrap();
    }
}

impl<W: Words> Launcher for StandIn<W> {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let socket = start.take(CONTROL).unwrap();
        let (crash, crashes) = oneshot::channel();
        *self.now.lock().unwrap() = Some((socket.try_clone().unwrap(), crash));
        let sent = self.sent.clone();
        let serve = async move {
            let socket = Watched::reading(socket).unwrap();
            let mut receiver = Receiver::new(TO_HELPER);
            loop {
                let packet: Packet<W::Command> = socket
                    .async_io(Interest::READABLE, |socket| receiver.receive(socket.as_fd()))
                    .await
                    .unwrap()
                    .unwrap();
                match W::sent(packet.message) {
                    Sent::Ping(ping) => {
                        let pong = W::pong(supervisor::pong(&ping));
                        transport::send(socket.as_fd(), &pong, FROM_HELPER, &[]).unwrap();
                    }
                    Sent::Stop => return,
                    Sent::Own(command) => sent.send(command).unwrap(),
                }
            }
        };
        let exit = async move {
            tokio::select! {
                () = serve => "stopped as asked".to_owned(),
                _ = crashes => "was killed by SIGKILL".to_owned(),
            }
        };
        let launched = Launched { pid: 7, start_time: 7, exit: Box::pin(exit), kill: Box::new(|| {}) };
        Box::pin(std::future::ready(Ok(launched)))
    }
}
