//! One probe as PID 1 sees it: absent, being launched, or running; and what is said to it.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::Instant;

use super::heartbeat::{Heartbeat, after};
use super::supervisor::Order;
use super::watched::Watched;
use kelson_helper::probe::{self as wire, FROM_PROBE_MAX, Incoming, TO_PROBE_MAX, ToProbe};
use kelson_helper::random::Random;
use kelson_helper::{BoxFuture, Launched};

/// So many bytes are made of what waits before they are written.
const AHEAD: usize = 32 << 10;

/// What waits to be sent; a check is read from the table only when it is its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outgoing {
    /// `again`: an earlier probe was told of it.
    Begin {
        id: u64,
        again: bool,
    },
    End(u64),
    Ping(u64),
    Goodbye,
}

/// A probe that was started.
pub struct ProbeRun {
    pub stream: UnixStream,
    pub incoming: Incoming,
    pub process: Launched,
    queue: VecDeque<Outgoing>,
    bytes: Vec<u8>,
    written: usize,
    pub heartbeat: Heartbeat,
    pub born: Instant,
    pub answered: bool,
    /// It was asked to end, and is killed then.
    pub stop_by: Option<Instant>,
    /// Its socket is closed: its exit is awaited until then.
    pub exit_by: Option<Instant>,
}

/// One that is being started.
pub struct Launch {
    pub future: BoxFuture<'static, io::Result<Launched>>,
    pub control: StdStream,
    pub by: Instant,
}

/// Where the probe is.
pub enum Process {
    /// None runs; the next is started then, or when there is something to ask.
    Absent {
        retry: Option<Instant>,
    },
    Launching(Launch),
    Running(Box<ProbeRun>),
}

/// What a keeper wakes up for.
pub enum Event {
    Order(Option<Order>),
    Launched(io::Result<Launched>),
    Exited(String),
    Ready,
    Tick,
}

impl ProbeRun {
    pub fn new(
        control: StdStream,
        process: Launched,
        now: Instant,
    ) -> Result<ProbeRun, (Launched, io::Error)> {
        let stream = match UnixStream::from_std(control) {
            Ok(stream) => stream,
            Err(error) => return Err((process, error)),
        };
        Ok(ProbeRun {
            stream,
            incoming: Incoming::new(FROM_PROBE_MAX),
            process,
            queue: VecDeque::from([Outgoing::Ping(1)]),
            bytes: Vec::new(),
            written: 0,
            heartbeat: Heartbeat::new(now),
            born: now,
            answered: false,
            stop_by: None,
            exit_by: None,
        })
    }

    pub fn enqueue(&mut self, outgoing: Outgoing) {
        self.queue.push_back(outgoing);
    }

    /// Asks it to end in order.
    pub fn stop(&mut self, within: Duration, now: Instant) {
        if self.stop_by.is_none() {
            self.stop_by = Some(after(now, within));
            self.queue.push_back(Outgoing::Goodbye);
        }
    }

    fn unsent(&self) -> bool {
        !self.queue.is_empty() || self.written < self.bytes.len()
    }

    /// Sends what fits; the rest waits for the socket. Checks that cannot be told are given back with why.
    ///
    /// # Errors
    /// The probe is gone.
    pub fn send(
        &mut self,
        watched: &Watched,
        random: &mut Random,
        now: Instant,
    ) -> io::Result<Vec<(u64, wire::WireError)>> {
        let mut refused = Vec::new();
        while self.unsent() {
            if self.written >= self.bytes.len() {
                self.bytes.clear();
                self.bytes.shrink_to(AHEAD);
                self.written = 0;
                self.encode(watched, random, now, &mut refused);
            }
            match self.stream.try_write(self.bytes.get(self.written..).unwrap_or_default()) {
                Ok(count) => self.written = self.written.saturating_add(count),
                Err(error) if would_block(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if !self.unsent() {
            self.queue.shrink_to(16);
            self.bytes = Vec::new();
            self.written = 0;
        }
        Ok(refused)
    }

    fn encode(
        &mut self,
        watched: &Watched,
        random: &mut Random,
        now: Instant,
        refused: &mut Vec<(u64, wire::WireError)>,
    ) {
        while self.bytes.len() < AHEAD
            && let Some(next) = self.queue.pop_front()
        {
            let message = match next {
                Outgoing::Begin { id, again } => match watched.get(id) {
                    Some(entry) => ToProbe::Begin(entry.begin(now, again, random)),
                    None => continue,
                },
                Outgoing::End(id) => ToProbe::End(id),
                Outgoing::Ping(number) => ToProbe::Ping(number),
                Outgoing::Goodbye => ToProbe::Goodbye,
            };
            let written = wire::write_frame(&mut self.bytes, &message, TO_PROBE_MAX);
            if let (Err(error), Outgoing::Begin { id, .. }) = (written, next) {
                refused.push((id, error));
            }
        }
    }
}

/// Whoever lets go of a probe wants it gone.
impl Drop for ProbeRun {
    fn drop(&mut self) {
        (self.process.kill)();
    }
}

impl Process {
    /// What comes next from the probe; cancelled by dropping, without a loss.
    pub async fn event(&mut self) -> Event {
        match self {
            Process::Absent { .. } => std::future::pending().await,
            Process::Launching(launch) => Event::Launched(launch.future.as_mut().await),
            Process::Running(run) => {
                let unsent = run.unsent();
                let open = run.exit_by.is_none();
                let ProbeRun { stream, process, .. } = run.as_mut();
                tokio::select! {
                    biased;
                    // An error shows when it is read from or written to.
                    _ = stream.readable(), if open => Event::Ready,
                    how = process.exit.as_mut() => Event::Exited(how),
                    _ = stream.writable(), if open && unsent => Event::Ready,
                }
            }
        }
    }
}

pub fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
