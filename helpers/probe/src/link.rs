//! The socket to PID 1: what it wants, and what it is told, a few times a second at most.

use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::outbox::Outbox;
use kelson_helper::probe::{self as wire, FROM_PROBE_MAX, FromProbe, Incoming, TO_PROBE_MAX, ToProbe};

/// From one batch of results to the next; the first after a pause goes at once.
const BATCH: Duration = Duration::from_millis(100);
/// Read at once.
const READ: usize = 16 << 10;
/// So many bytes are made of results before they are written.
const AHEAD: usize = 64 << 10;
/// Longer waits nothing that is no result: PID 1 is not there.
const URGENT_MAX: usize = 64 << 10;

pub struct Link {
    stream: UnixStream,
    incoming: Incoming,
    buffer: Box<[u8]>,
    pub outbox: Outbox,
    /// Written before results.
    urgent: Vec<u8>,
    bytes: Vec<u8>,
    written: usize,
    batched: Option<Instant>,
}

impl Link {
    pub fn new(control: StdStream) -> io::Result<Link> {
        Ok(Link {
            stream: UnixStream::from_std(control)?,
            incoming: Incoming::new(TO_PROBE_MAX),
            buffer: vec![0; READ].into_boxed_slice(),
            outbox: Outbox::default(),
            urgent: Vec::new(),
            bytes: Vec::new(),
            written: 0,
            batched: None,
        })
    }

    /// Until something can be read, or written where that is waited for.
    pub async fn ready(&self) {
        let interest = match self.blocked() {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        // An error shows when it is read.
        let _ = self.stream.ready(interest).await;
    }

    fn blocked(&self) -> bool {
        self.written < self.bytes.len()
    }

    /// When [`Link::flush`] wants to be called; when PID 1 takes nothing, [`Link::ready`] tells.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        if self.blocked() || (self.outbox.is_empty() && self.urgent.is_empty()) {
            return None;
        }
        if !self.urgent.is_empty() {
            return Some(now);
        }
        Some(self.batched.and_then(|at| at.checked_add(BATCH)).unwrap_or(now))
    }

    /// Takes in what PID 1 has sent and hands each message to `take`, which may ask to stop. False once PID 1 is gone.
    ///
    /// # Errors
    /// What came is none of our messages.
    pub fn read(&mut self, mut take: impl FnMut(ToProbe<'_>, &mut Vec<u8>)) -> io::Result<bool> {
        loop {
            let count = match self.stream.try_read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error),
            };
            self.incoming.push(self.buffer.get(..count).unwrap_or_default());
            while let Some(frame) = self.incoming.frame().map_err(io::Error::other)? {
                let (message, _) = wire::read_piece(frame).map_err(io::Error::other)?;
                take(message, &mut self.urgent);
            }
        }
    }

    /// Says something that is no result.
    pub fn say(&mut self, message: &FromProbe<'_>) {
        write_urgent(&mut self.urgent, message);
    }

    /// Writes what is due and fits; what PID 1 does not take stays. False once it is gone.
    pub fn flush(&mut self, now: Instant, lives: impl Fn(u64) -> bool) -> io::Result<bool> {
        loop {
            if !self.blocked() {
                self.bytes.clear();
                self.written = 0;
                self.bytes.append(&mut self.urgent);
                let due = self.batched.and_then(|at| at.checked_add(BATCH)).is_none_or(|due| now >= due);
                if due && !self.outbox.is_empty() {
                    while self.bytes.len() < AHEAD && !self.outbox.is_empty() {
                        self.outbox.write(&mut self.bytes, &lives);
                    }
                    if self.outbox.is_empty() {
                        self.batched = Some(now);
                    }
                }
                if self.bytes.is_empty() {
                    self.bytes.shrink_to(FROM_PROBE_MAX);
                    return Ok(true);
                }
            }
            match self.stream.try_write(self.bytes.get(self.written..).unwrap_or_default()) {
                Ok(count) => self.written = self.written.saturating_add(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

pub fn write_urgent(urgent: &mut Vec<u8>, message: &FromProbe<'_>) {
    if urgent.len() < URGENT_MAX {
        // A text that is too long for a frame is no loss.
        let _ = wire::write_frame(urgent, message, FROM_PROBE_MAX);
    }
}
