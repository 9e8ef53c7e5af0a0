//! The output on a thread of its own: who writes it may wait for ever, and signals must not.

use std::io;

use tokio::sync::{mpsc, oneshot};

use crate::console::thread;
use crate::failure::Failure;

enum Piece {
    Output(Vec<u8>),
    Errors(Vec<u8>),
}

/// Writes output and errors, byte for byte, in the order in which they came.
pub struct Printer {
    pieces: mpsc::Sender<Piece>,
    done: oneshot::Receiver<io::Result<()>>,
}

impl Printer {
    pub fn new() -> Result<Printer, Failure> {
        let (pieces, mut waiting) = mpsc::channel(1);
        let (report, done) = oneshot::channel();
        thread("output", move || {
            let mut written = Ok(());
            while let Some(piece) = waiting.blocking_recv() {
                written = match piece {
                    Piece::Output(bytes) => write(&mut io::stdout().lock(), &bytes),
                    Piece::Errors(bytes) => write(&mut io::stderr().lock(), &bytes),
                };
                if written.is_err() {
                    break;
                }
            }
            drop(waiting);
            let _ = report.send(written);
        })?;
        Ok(Printer { pieces, done })
    }

    /// `false`: nothing can be written any more; [`Printer::finish`] tells why.
    pub async fn output(&self, bytes: Vec<u8>) -> bool {
        self.pieces.send(Piece::Output(bytes)).await.is_ok()
    }

    /// As [`Printer::output`], on the standard error.
    pub async fn errors(&self, bytes: Vec<u8>) -> bool {
        self.pieces.send(Piece::Errors(bytes)).await.is_ok()
    }

    /// Returns once all is written.
    ///
    /// # Errors
    /// What kept it from being written.
    pub async fn finish(self) -> io::Result<()> {
        drop(self.pieces);
        self.done.await.unwrap_or_else(|_| Err(io::Error::other("its thread has ended")))
    }
}

fn write(to: &mut impl io::Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}
