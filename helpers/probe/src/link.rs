//! The socket to PID 1: requests of PID 1, and reports to it, a few times a second at most.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use kelson_helper::transport::{self, FROM_HELPER, Receiver, TO_HELPER};
use kelson_proto::v1::{self, probe_command, probe_report};
use kelson_sys::descriptor::Watched;
use tokio::io::Interest;
use tokio::time::Instant;

use super::outbox::Outbox;

/// From one batch of results to the next; the first after a pause goes at once.
const BATCH: Duration = Duration::from_millis(100);
/// More that is no result waits for nobody: PID 1 is not there.
const URGENT_MAX: usize = 1024;

pub struct Link {
    socket: Watched<OwnedFd>,
    receiver: Receiver,
    pub outbox: Outbox,
    /// Sent before results.
    urgent: VecDeque<probe_report::Report>,
    /// The report that the socket has not taken.
    unsent: Option<v1::ProbeReport>,
    batched: Option<Instant>,
}

impl Link {
    /// Must be called on the runtime.
    pub fn new(control: OwnedFd) -> io::Result<Link> {
        Ok(Link {
            socket: Watched::new(control, Interest::READABLE | Interest::WRITABLE)?,
            receiver: Receiver::new(TO_HELPER),
            outbox: Outbox::default(),
            urgent: VecDeque::new(),
            unsent: None,
            batched: None,
        })
    }

    /// Until something can be read, or written where that is waited for.
    pub async fn ready(&self) {
        let interest = match self.unsent {
            Some(_) => Interest::READABLE | Interest::WRITABLE,
            None => Interest::READABLE,
        };
        // An error shows when it is read.
        let _ = self.socket.ready(interest).await;
    }

    /// When [`Link::flush`] wants to be called; when PID 1 takes nothing, [`Link::ready`] tells.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        if self.unsent.is_some() || (self.outbox.is_empty() && self.urgent.is_empty()) {
            return None;
        }
        Some(if self.urgent.is_empty() { self.batch_due().unwrap_or(now) } else { now })
    }

    fn batch_due(&self) -> Option<Instant> {
        self.batched.and_then(|at| at.checked_add(BATCH))
    }

    /// The next message of PID 1. `None`: there is none now.
    ///
    /// # Errors
    /// `UnexpectedEof`: PID 1 is gone. Others: what came is none of our messages.
    pub fn read(&mut self) -> io::Result<Option<probe_command::Command>> {
        while let Some(packet) = self.receiver.next::<v1::ProbeCommand>(&self.socket)? {
            if packet.message.command.is_some() {
                return Ok(packet.message.command);
            }
        }
        Ok(None)
    }

    /// Says something that is no result.
    pub fn say(&mut self, report: probe_report::Report) {
        if self.urgent.len() < URGENT_MAX {
            self.urgent.push_back(report);
        }
    }

    /// Sends what is due and fits; what PID 1 does not take stays.
    ///
    /// # Errors
    /// `BrokenPipe`: PID 1 is gone.
    pub fn flush(&mut self, now: Instant, lives: impl Fn(u64) -> bool) -> io::Result<()> {
        loop {
            let Some(report) = self.take_next(now, &lives) else { return Ok(()) };
            let sent = self.socket.try_io(Interest::WRITABLE, |socket| {
                transport::send(socket.as_fd(), &report, FROM_HELPER, &[])
            });
            match sent {
                Ok(()) => {}
                Err(error) if transport::would_block(&error) => {
                    self.unsent = Some(report);
                    return Ok(());
                }
                // A text that is too long for a message is no loss.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_next(&mut self, now: Instant, lives: &impl Fn(u64) -> bool) -> Option<v1::ProbeReport> {
        if let Some(unsent) = self.unsent.take() {
            return Some(unsent);
        }
        let due = self.batch_due().is_none_or(|due| now >= due);
        let report = match self.urgent.pop_front() {
            None if due => {
                let report = self.outbox.next(lives);
                if report.is_some() && self.outbox.is_empty() {
                    self.batched = Some(now);
                }
                report
            }
            urgent => urgent,
        };
        report.map(|report| v1::ProbeReport { report: Some(report) })
    }
}
