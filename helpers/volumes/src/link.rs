//! The socket to PID 1: its commands, and reports to it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use kelson_helper::transport::{self, FROM_HELPER, Receiver, TO_HELPER};
use kelson_proto::v1::volumes_command::Command;
use kelson_proto::v1::volumes_report::Report;
use kelson_proto::v1::{VolumesCommand, VolumesReport};
use kelson_sys::descriptor::Watched;
use tokio::io::Interest;

/// Steps beyond these are not kept while PID 1 takes nothing: its answers are.
const STEPS_MAX: usize = 4096;

pub struct Link {
    socket: Watched<OwnedFd>,
    receiver: Receiver,
    unsent: VecDeque<VolumesReport>,
}

impl Link {
    /// Must be called on the runtime.
    pub fn new(control: OwnedFd) -> io::Result<Link> {
        let socket = Watched::new(control, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Link { socket, receiver: Receiver::new(TO_HELPER), unsent: VecDeque::new() })
    }

    /// Until something can be read, or written where that is waited for.
    pub async fn ready(&self) {
        let interest = match self.unsent.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        // An error shows when it is read.
        let _ = self.socket.ready(interest).await;
    }

    /// The next message of PID 1. `None`: there is none now.
    ///
    /// # Errors
    /// `UnexpectedEof`: PID 1 is gone. Others: what came is none of our messages.
    pub fn read(&mut self) -> io::Result<Option<Command>> {
        while let Some(packet) = self.receiver.next::<VolumesCommand>(&self.socket)? {
            if packet.message.command.is_some() {
                return Ok(packet.message.command);
            }
        }
        Ok(None)
    }

    pub fn report(&mut self, report: Report) {
        let is_step = matches!(report, Report::Step(_) | Report::Trouble(_));
        if !is_step || self.unsent.len() < STEPS_MAX {
            self.unsent.push_back(VolumesReport { report: Some(report) });
        }
    }

    /// Sends what PID 1 takes.
    ///
    /// # Errors
    /// `BrokenPipe`: PID 1 is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some(report) = self.unsent.front() {
            let sent = self.socket.try_io(Interest::WRITABLE, |socket| {
                transport::send(socket.as_fd(), report, FROM_HELPER, &[])
            });
            match sent {
                Err(error) if transport::would_block(&error) => return Ok(()),
                // All that is sent is bounded. A text that is too long for a message is no loss.
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => return Err(error),
                _ => drop(self.unsent.pop_front()),
            }
        }
        Ok(())
    }
}
