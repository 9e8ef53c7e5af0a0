//! The standard streams on threads of their own: who reads or writes them may wait for ever, and signals must not.

use std::io::{self, Read as _};

use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;

/// Bytes that are sent at once.
const CHUNK: usize = 32 * 1024;

/// Work that may wait for ever; nothing waits for its end.
pub fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let made = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    made.map(drop).map_err(|error| Failure::Failed(format!("cannot make a thread: {error}")))
}

/// The standard input, piece by piece as it is taken; its end closes the channel.
pub fn read_input() -> Result<mpsc::Receiver<Vec<u8>>, Failure> {
    let (sender, receiver) = mpsc::channel(1);
    thread("input", move || {
        let mut chunk = vec![0; CHUNK];
        loop {
            match io::stdin().lock().read(&mut chunk) {
                Ok(0) => return,
                Ok(count) => {
                    if sender.blocking_send(chunk[..count].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A terminal that has gone: there is nothing more to come.
                Err(_) => return,
            }
        }
    })?;
    Ok(receiver)
}

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
