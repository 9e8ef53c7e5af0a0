//! Keeps one long-running helper of PID 1 at work.
//!
//! The [`Lifecycle`] decides: it is a pure state machine with three states (absent, launching, running) and a
//! [heartbeat]. The [`Supervisor`] performs what it decides, over one socket to the helper. A [`Duty`] is the part that
//! differs from helper to helper: the orders of a new one, the meaning of its messages, and whether anything depends on
//! it.
//!
//! The owner of both has a loop: it waits for [`Supervisor::next`] beside its own inputs, and then calls
//! [`Supervisor::advance`].

mod duty;
mod heartbeat;
mod lifecycle;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kelson_proto::v1::{HelperPing, HelperPong, HelperStop};
use kelson_sys::descriptor::Watched;
use tokio::io::Interest;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::launch::{Launched, Launcher};
use crate::transport::{self, FROM_HELPER, Receiver, TO_HELPER};
pub use duty::{Duty, Order, Reply, Status};
pub use heartbeat::{AnswerTimes, Expectations, after};
use lifecycle::{Action, Event, Lifecycle};
pub use lifecycle::{End, Next, Policy};

/// A helper that is replaced has so long to finish.
pub const ORDERLY: Duration = Duration::from_secs(1);
/// Messages taken from the socket before others are served.
const PACKETS: usize = 64;

/// The events that wake a [`Supervisor`].
pub enum Wake {
    Launched(io::Result<Launched>),
    Exited(String),
    /// The socket can be read or written, or a time has come.
    Ready,
}

struct Launch {
    future: BoxFuture<'static, io::Result<Launched>>,
    control: OwnedFd,
}

struct Link<O> {
    control: Watched<OwnedFd>,
    receiver: Receiver,
    process: Launched,
    queue: VecDeque<Order<O>>,
}

/// See the module.
pub struct Supervisor<D: Duty> {
    launcher: Arc<dyn Launcher>,
    lifecycle: Lifecycle,
    launch: Option<Launch>,
    link: Option<Link<D::Order>>,
    status: Status,
    /// The message while there is nothing to do.
    idle: &'static str,
    /// The tasks that wait for its end.
    waiting: Vec<oneshot::Sender<()>>,
}

impl<D: Duty> Supervisor<D> {
    /// Starts none before it is [wanted](Supervisor::want).
    pub fn new(
        launcher: Arc<dyn Launcher>,
        policy: Policy,
        status: Status,
        idle: &'static str,
    ) -> Supervisor<D> {
        let lifecycle = Lifecycle::new(policy);
        Supervisor { launcher, lifecycle, launch: None, link: None, status, idle, waiting: Vec::new() }
    }

    /// Takes over a helper that an earlier incarnation of PID 1 has started. Whether it still answers, and to whom it
    /// belongs, shows as with a new one. Gives the socket back if it has ended.
    pub fn attach(
        &mut self,
        control: OwnedFd,
        (pid, start_time): (i32, u64),
        restarts: u32,
        duty: &mut D,
        now: Instant,
    ) -> Result<(), OwnedFd> {
        self.status.restarts = restarts;
        let Some(process) = self.launcher.attach(pid, start_time) else { return Err(control) };
        self.connect(control, process, Event::Attached, duty, now);
        Ok(())
    }

    /// There is something to do for it. True: it is being started for that.
    pub fn want(&mut self, duty: &mut D, now: Instant) -> bool {
        let launches = self.launch.is_some();
        self.step(Event::Wanted, duty, now);
        !launches && self.launch.is_some()
    }

    /// There is nothing to do for it. It goes on until it is [stopped](Supervisor::stop).
    pub fn unwant(&mut self, duty: &mut D, now: Instant) {
        self.step(Event::Unwanted, duty, now);
    }

    /// The helper is to end in order; the next one is started at once, if it is wanted. Not counted as a restart.
    pub fn stop(&mut self, duty: &mut D, now: Instant) {
        self.step(Event::Stop(ORDERLY), duty, now);
    }

    /// Ends the helper in order, and kills it at `deadline`. None is started after that. Then `done` is sent.
    pub fn shut_down(
        &mut self,
        deadline: Instant,
        done: Option<oneshot::Sender<()>>,
        duty: &mut D,
        now: Instant,
    ) {
        self.waiting.extend(done);
        self.step(Event::Shutdown(deadline), duty, now);
    }

    /// Sends this to a running helper; one that starts later gets all orders anyway.
    pub fn enqueue(&mut self, order: D::Order) {
        if let Some(link) = &mut self.link {
            link.queue.push_back(Order::Own(order));
        }
    }

    /// From now on something depends on the helper: unless it is asked already, its silence counts from now.
    pub fn expect(&mut self, now: Instant) {
        if let Some(heartbeat) = self.lifecycle.heartbeat() {
            heartbeat.expect(now);
        }
    }

    /// One runs that has answered.
    pub fn is_up(&self) -> bool {
        self.lifecycle.is_up()
    }

    /// None runs, and none will before it is wanted.
    pub fn is_idle(&self) -> bool {
        self.lifecycle.is_idle()
    }

    /// Kills what runs, without a word.
    pub fn kill(&self) {
        if let Some(link) = &self.link {
            (link.process.kill)();
        }
    }

    /// Waits for what comes next, at most until `also`; without an end while all is quiet. Cancelled by dropping,
    /// without a loss.
    pub async fn next(&mut self, duty: &D, also: Option<Instant>) -> Wake {
        let deadline = self.lifecycle.deadline(duty).into_iter().chain(also).min();
        let tick = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let open = self.lifecycle.is_open();
        let happens = async {
            match (&mut self.launch, &mut self.link) {
                (Some(launch), _) => Wake::Launched(launch.future.as_mut().await),
                (None, Some(link)) => link.next(open).await,
                (None, None) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            wake = happens => wake,
            () = tick => Wake::Ready,
        }
    }

    /// Does what is to be done now.
    pub fn advance(&mut self, wake: Wake, duty: &mut D, now: Instant) {
        // A late timer must not be taken for a dead helper while its answer lies unread in the socket; nor does an exit
        // make its last messages void.
        self.receive(duty, now);
        match wake {
            Wake::Launched(Ok(process)) => {
                if let Some(launch) = self.launch.take() {
                    self.connect(launch.control, process, Event::Launched, duty, now);
                }
            }
            Wake::Launched(Err(error)) => self.not_launched("started", &error, duty, now),
            Wake::Exited(how) => self.step(Event::Exited(&how), duty, now),
            Wake::Ready => {}
        }
        // Nor must a ping that has yet to go out count as unanswered.
        self.send(duty, now);
        let actions = self.lifecycle.tick(duty, now);
        self.perform(actions, duty, now);
        self.send(duty, now);
    }

    /// Publishes the status with this message.
    pub fn publish(&mut self, message: &str, duty: &mut D) {
        self.status.pid = self.link.as_ref().map(|link| link.process.pid);
        self.status.up = self.lifecycle.is_up();
        self.status.since = Instant::now();
        self.status.message = message.into();
        duty.publish(&self.status);
    }

    fn step(&mut self, event: Event<'_>, duty: &mut D, now: Instant) {
        let actions = self.lifecycle.step(event, now);
        self.perform(actions, duty, now);
    }

    fn perform(&mut self, actions: Vec<Action>, duty: &mut D, now: Instant) {
        for action in actions {
            match (action, &mut self.link) {
                (Action::Launch, _) => self.launch(duty, now),
                (Action::Ping, Some(link)) => link.queue.push_back(Order::Ping),
                (Action::Stop { within }, Some(link)) => link.queue.push_back(Order::Stop { within }),
                (Action::Ping | Action::Stop { .. }, None) => {}
                (Action::Up, _) => {
                    self.publish("running", duty);
                    duty.up(now);
                }
                (Action::Ended(end), _) => self.ended(&end, duty, now),
            }
        }
    }

    fn launch(&mut self, duty: &mut D, now: Instant) {
        let pair = transport::pair().and_then(|(control, theirs)| Ok((control, duty.start(theirs)?)));
        match pair {
            Ok((control, start)) => {
                self.launch = Some(Launch { future: self.launcher.launch(start), control });
            }
            Err(error) => self.not_launched("started", &error, duty, now),
        }
    }

    fn not_launched(&mut self, what: &str, error: &io::Error, duty: &mut D, now: Instant) {
        self.step(Event::NotLaunched(&format!("could not be {what}: {error}")), duty, now);
    }

    fn connect(&mut self, control: OwnedFd, process: Launched, event: Event<'_>, duty: &mut D, now: Instant) {
        let control = match Watched::new(control, Interest::READABLE | Interest::WRITABLE) {
            Ok(control) => control,
            Err(error) => {
                (process.kill)();
                return self.not_launched("reached", &error, duty, now);
            }
        };
        duty.connected(control.as_fd(), &process, self.status.restarts);
        let queue = duty.orders().into_iter().map(Order::Own).collect();
        let receiver = Receiver::new(FROM_HELPER);
        self.link = Some(Link { control, receiver, process, queue });
        self.step(event, duty, now);
        self.publish(if self.lifecycle.is_up() { "running" } else { "started" }, duty);
    }

    fn ended(&mut self, end: &End, duty: &mut D, now: Instant) {
        self.launch = None;
        if let Some(link) = self.link.take() {
            (link.process.kill)();
            duty.closing(link.control.as_fd());
        }
        if matches!(end.next, Next::After(_)) {
            self.status.restarts = self.status.restarts.saturating_add(1);
        }
        self.publish(&end.message(self.idle), duty);
        duty.ended(end, now);
        if end.next == Next::Stopped {
            for done in self.waiting.drain(..) {
                // The caller may have given up.
                let _ = done.send(());
            }
        }
    }

    fn receive(&mut self, duty: &mut D, now: Instant) {
        for _ in 0..PACKETS {
            let open = self.lifecycle.is_open();
            let Some(Link { control, receiver, .. }) = self.link.as_mut().filter(|_| open) else { return };
            let packet = match control.try_io(Interest::READABLE, |socket| receiver.receive(socket.as_fd())) {
                Ok(Some(packet)) => packet,
                Err(error) if transport::would_block(&error) => return,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return self.broken(&error.to_string(), duty, now);
                }
                Ok(None) | Err(_) => return self.step(Event::Closed, duty, now),
            };
            self.step(Event::Received, duty, now);
            match duty.received(packet, now) {
                Reply::Nothing => {}
                Reply::Pong(HelperPong { version, .. }) if version == VERSION => {}
                Reply::Pong(HelperPong { version, .. }) => {
                    let how = format!("is of Kelson {version:?} instead of {VERSION} and was killed");
                    self.step(Event::OtherVersion(&how), duty, now);
                }
                Reply::Order(order) => self.enqueue(order),
                Reply::Broken(why) => return self.broken(&why, duty, now),
            }
        }
    }

    fn broken(&mut self, why: &str, duty: &mut D, now: Instant) {
        let how = format!("sent what is no message ({why}) and was killed");
        self.step(Event::Broken(&how), duty, now);
    }

    /// Sends what fits; the rest waits for the socket.
    fn send(&mut self, duty: &mut D, now: Instant) {
        let open = self.lifecycle.is_open();
        let Some(link) = self.link.as_mut().filter(|_| open) else { return };
        while let Some(order) = link.queue.front() {
            let Some((command, descriptors)) = duty.command(order, now) else {
                link.queue.pop_front();
                continue;
            };
            let sent = link.control.try_io(Interest::WRITABLE, |socket| {
                transport::send(socket.as_fd(), &command, TO_HELPER, &descriptors)
            });
            match &sent {
                Err(error) if transport::would_block(error) => break,
                // Longer than a packet: no helper would take it.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(_) => return self.step(Event::Closed, duty, now),
                Ok(()) => {}
            }
            let Some(order) = link.queue.pop_front() else { return };
            if let (Order::Ping, Some(heartbeat)) = (&order, self.lifecycle.heartbeat()) {
                heartbeat.sent(now);
            }
            duty.sent(order, sent, now);
        }
        if link.queue.is_empty() {
            link.queue.shrink_to(16);
        }
    }
}

impl<O> Link<O> {
    async fn next(&mut self, open: bool) -> Wake {
        let Link { control, process, queue, .. } = self;
        tokio::select! {
            biased;
            // An error shows when it is read or written.
            _ = control.readable(), if open => Wake::Ready,
            how = process.exit.as_mut() => Wake::Exited(how),
            _ = control.writable(), if open && !queue.is_empty() => Wake::Ready,
        }
    }
}

/// Names this version of Kelson to the other end: PID 1 replaces a helper of another one.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Asks the driver of a helper for something, and waits until it is done. A driver that is gone has nothing left to do.
pub async fn ask<C>(commands: &mpsc::UnboundedSender<C>, command: impl FnOnce(oneshot::Sender<()>) -> C) {
    let (done, ended) = oneshot::channel();
    if commands.send(command(done)).is_ok() {
        let _ = ended.await;
    }
}

/// The first message to each helper, and to one that is silent.
pub fn ping() -> HelperPing {
    HelperPing { number: 1, version: VERSION.to_owned() }
}

/// The answer of a helper.
pub fn pong(ping: &HelperPing) -> HelperPong {
    HelperPong { number: ping.number, version: VERSION.to_owned() }
}

pub fn stop(within: Duration) -> HelperStop {
    HelperStop { within_ms: u32::try_from(within.as_millis()).unwrap_or(u32::MAX) }
}
