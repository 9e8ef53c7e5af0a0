//! Work that may hang, each piece in a thread of its own: a disk that does not answer, a driver that does not come to an end.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

type Job<T> = Box<dyn FnOnce() -> T + Send>;

/// Kernel calls, and a module that is unpacked.
const STACK: usize = 256 << 10;

/// Pieces of work whose outcomes are of one type.
pub struct Jobs<T> {
    sender: Sender<T>,
    receiver: Receiver<T>,
    /// A byte for each outcome, so that poll(2) can wait for one.
    read: PipeReader,
    write: PipeWriter,
    waiting: VecDeque<Job<T>>,
    running: usize,
    most: usize,
}

impl<T: Send + 'static> Jobs<T> {
    /// Runs at most so many at the same time. One that hangs keeps its place.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn new(most: usize) -> io::Result<Jobs<T>> {
        let (sender, receiver) = channel();
        let (read, write) = io::pipe()?;
        Ok(Jobs { sender, receiver, read, write, waiting: VecDeque::new(), running: 0, most })
    }

    /// Runs a job as soon as there is room.
    pub fn push(&mut self, job: impl FnOnce() -> T + Send + 'static) {
        self.waiting.push_back(Box::new(job));
        self.start();
    }

    /// Whether all have ended and their outcomes were taken.
    pub fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting.is_empty()
    }

    /// The next outcome, without waiting for one.
    pub fn take(&mut self) -> Option<T> {
        let outcome = self.receiver.try_recv().ok()?;
        let _ = self.read.read(&mut [0]);
        self.running = self.running.saturating_sub(1);
        self.start();
        Some(outcome)
    }

    fn start(&mut self) {
        while self.running < self.most {
            let Some(job) = self.waiting.pop_front() else { return };
            let Ok(mut wake) = self.write.try_clone() else { return self.waiting.push_front(job) };
            let sender = self.sender.clone();
            let run = move || {
                let _ = sender.send(job());
                let _ = wake.write_all(&[0]);
            };
            // Without a thread the piece is lost; the next message about its device makes another.
            if thread::Builder::new().stack_size(STACK).spawn(run).is_ok() {
                self.running = self.running.saturating_add(1);
            }
        }
    }
}

impl<T> AsFd for Jobs<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn one_that_hangs_keeps_its_place_and_no_other() {
        let mut jobs = Jobs::new(2).unwrap();
        let (release, hangs) = sync_channel::<()>(0);
        jobs.push(move || {
            let _ = hangs.recv();
            0
        });
        for number in 1..=5 {
            jobs.push(move || number);
        }
        let mut wait = || loop {
            if let Some(outcome) = jobs.take() {
                return (outcome, jobs.is_idle());
            }
            thread::yield_now();
        };
        let first: Vec<_> = (0..5).map(|_| wait()).collect();
        assert_eq!(first, [1, 2, 3, 4, 5].map(|number| (number, false)));
        release.send(()).unwrap();
        assert_eq!(wait(), (0, true));
    }
}
