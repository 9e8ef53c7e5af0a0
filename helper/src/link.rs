//! A helper's end of its socket to PID 1, for a helper that waits on a runtime: messages of PID 1, and reports to it.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, OwnedFd};

use kelson_sys::descriptor::Watched;
use prost::Message;
use tokio::io::Interest;

use crate::transport::{self, FROM_HELPER, Receiver, TO_HELPER};

/// Takes messages `M`, and keeps reports `R` until PID 1 takes them.
pub struct Link<M, R> {
    socket: Watched<OwnedFd>,
    receiver: Receiver,
    unsent: VecDeque<R>,
    message: PhantomData<fn() -> M>,
}

impl<M: Message + Default, R: Message> Link<M, R> {
    /// Must be called on the runtime.
    ///
    /// # Errors
    /// When the kernel refuses to watch the socket.
    pub fn new(control: OwnedFd) -> io::Result<Link<M, R>> {
        let socket = Watched::new(control, Interest::READABLE | Interest::WRITABLE)?;
        let (receiver, unsent) = (Receiver::new(TO_HELPER), VecDeque::new());
        Ok(Link { socket, receiver, unsent, message: PhantomData })
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
    /// `UnexpectedEof`: PID 1 is gone. Others: what came is none of the messages.
    pub fn read(&mut self) -> io::Result<Option<M>> {
        Ok(self.receiver.next::<M>(&self.socket)?.map(|packet| packet.message))
    }

    /// Gives the messages that have come to `take`, until that says `Break`. `Break`: it did, or PID 1 is gone.
    ///
    /// # Errors
    /// What came is none of the messages.
    pub fn each(&mut self, mut take: impl FnMut(M) -> ControlFlow<()>) -> io::Result<ControlFlow<()>> {
        loop {
            let taken = match self.read() {
                Ok(Some(message)) => take(message),
                Ok(None) => return Ok(ControlFlow::Continue(())),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => ControlFlow::Break(()),
                Err(error) => return Err(error),
            };
            if taken.is_break() {
                return Ok(taken);
            }
        }
    }

    /// How many reports PID 1 has not taken yet.
    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    pub fn report(&mut self, report: R) {
        self.unsent.push_back(report);
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
