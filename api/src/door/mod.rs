//! The personality `kelson-apid`: the door of a machine.
//!
//! It listens on TCP, ends mutual TLS (1.3, a client certificate that the CA has signed), and forwards each call byte
//! for byte to the Unix sockets: the Logs service to that of kelson-logd, all else to that of PID 1. It knows nothing
//! of the messages within, but of those that it makes the text of `/metrics` from. What it adds is the identity of the client; what a client sends under that name is dropped.
//! A fault in TLS or HTTP/2 met by strangers costs a restart of this process, not the machine.
//!
//! Its log is stderr.

mod arguments;
mod certificate;
mod forward;
mod listen;
mod metrics;
mod notify;
mod relay;
mod tls;

use std::ffi::OsString;

use crate::error::ApiError;
use arguments::Arguments;

/// Runs until SIGTERM or SIGINT; the exit status: 0 ended as asked, 1 failed, 2 wrong arguments.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    match run(arguments) {
        Ok(()) => 0,
        Err(error) => {
            say(&error.to_string());
            if matches!(error, ApiError::Usage(_)) { 2 } else { 1 }
        }
    }
}

fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), ApiError> {
    let arguments = Arguments::parse(arguments)?;
    // All that can be wrong is found before anything is open.
    let acceptor = tls::acceptor(&arguments)?;
    // Blocked before the first thread is there, so that the descriptor gets them.
    let signals = listen::signals()?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ApiError::Runtime)?;
    runtime.block_on(listen::run(arguments, acceptor, signals))
}

/// One line of the log.
fn say(line: &str) {
    use std::io::Write as _;
    // Where stderr is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}
