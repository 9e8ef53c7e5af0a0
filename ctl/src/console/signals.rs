//! The signals that concern a session: none of them ends this process by itself any more.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::sync::mpsc;

use super::thread;
use crate::failure::Failure;

/// The exit status that tells of a signal, as in a shell.
pub fn of_signal(signal: i32) -> u8 {
    signal.saturating_add(128).to_le_bytes()[0]
}

/// The signals that arrived, one after the other.
pub struct Signals(mpsc::Receiver<i32>);

impl Signals {
    /// Blocks them in this thread and all that it will make: to be called before there are others.
    ///
    /// # Errors
    /// When the kernel has no descriptor or no thread left.
    pub fn new() -> Result<Signals, Failure> {
        let set: SigSet =
            [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGWINCH].into_iter().collect();
        let descriptor = set
            .thread_block()
            .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC))
            .map_err(|errno| Failure::Failed(format!("cannot wait for signals: {errno}")))?;
        let (sender, receiver) = mpsc::channel(8);
        thread("signals", move || {
            while let Ok(Some(info)) = descriptor.read_signal() {
                let number = i32::try_from(info.ssi_signo).unwrap_or_default();
                if sender.blocking_send(number).is_err() {
                    return;
                }
            }
        })?;
        Ok(Signals(receiver))
    }

    /// The next one. Cancelled by dropping, without loss.
    pub async fn next(&mut self) -> i32 {
        match self.0.recv().await {
            Some(number) => number,
            // Its thread reads as long as this process lives.
            None => std::future::pending().await,
        }
    }

    /// The next that asks this process to end.
    pub async fn leaving(&mut self) -> i32 {
        loop {
            match self.next().await {
                libc::SIGWINCH => {}
                number => return number,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_signal;

    #[test]
    fn a_signal_is_told_as_shells_do() {
        assert_eq!((of_signal(2), of_signal(9), of_signal(15)), (130, 137, 143));
    }
}
