//! The terminal here and what comes from it: keys, its size, signals. For commands that stay.
//!
//! A reader or writer of a stream may wait for ever, and signals must not: each has a thread of its own.

pub mod keyboard;
pub mod signals;
pub mod writer;

use std::io::{self, IsTerminal as _, Read as _};

use tokio::sync::mpsc;

use crate::failure::Failure;

/// Bytes that are sent at once.
const CHUNK: usize = 32 * 1024;

/// Work that may wait for ever; nothing waits for its end.
pub fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let made = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    made.map(drop).map_err(|error| Failure::Failed(format!("cannot make a thread: {error}")))
}

/// Which of the two that are needed is no terminal.
pub fn missing_terminal(input: bool) -> Option<&'static str> {
    match (io::stdin().is_terminal(), io::stdout().is_terminal()) {
        (false, _) if input => Some("input"),
        (_, false) => Some("output"),
        _ => None,
    }
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
