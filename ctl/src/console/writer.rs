//! The standard streams, written on a thread of their own: a terminal or a pipe may take nothing for as long as it likes,
//! and signals must not wait for it.

use std::io::{self, Write};

use tokio::sync::mpsc;

use super::thread;
use crate::failure::Failure;

/// Bytes for one of the two.
pub enum Piece {
    Output(Vec<u8>),
    Errors(Vec<u8>),
}

/// Writes pieces in the order in which they come, one after the other.
pub struct Writer {
    pieces: mpsc::Sender<Piece>,
    done: mpsc::Receiver<io::Result<()>>,
    busy: bool,
}

impl Writer {
    /// # Errors
    /// When the kernel has no thread left.
    pub fn new() -> Result<Writer, Failure> {
        let (pieces, mut waiting) = mpsc::channel(1);
        let (report, done) = mpsc::channel(1);
        thread("output", move || {
            while let Some(piece) = waiting.blocking_recv() {
                let written = match piece {
                    Piece::Output(bytes) => write(&mut io::stdout().lock(), &bytes),
                    Piece::Errors(bytes) => write(&mut io::stderr().lock(), &bytes),
                };
                if report.blocking_send(written).is_err() {
                    return;
                }
            }
        })?;
        Ok(Writer { pieces, done, busy: false })
    }

    /// True where what it has taken is not written yet.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Takes a piece, which there is room for while it is not busy.
    pub fn take(&mut self, piece: Piece) {
        self.busy |= self.pieces.try_send(piece).is_ok();
    }

    /// Returns once what it has taken is written. Cancelled by dropping, without loss.
    ///
    /// # Errors
    /// What kept it from being written.
    pub async fn written(&mut self) -> io::Result<()> {
        if !self.busy {
            return std::future::pending().await;
        }
        let written = self.done.recv().await;
        self.busy = false;
        written.unwrap_or_else(|| Err(io::Error::other("its thread has ended")))
    }
}

fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()?;
    // Bytes that wait in the kernel for a slow line are not shown yet. Without a terminal there is nothing to wait for.
    // SAFETY: it takes a plain number.
    unsafe { libc::tcdrain(libc::STDOUT_FILENO) };
    Ok(())
}
