//! The personality `kelson-apid`: the door of a machine.
//!
//! It listens on TCP, ends mutual TLS (1.3, a client certificate that the CA has signed), and forwards each call byte
//! for byte to the Unix sockets: the Logs service to that of kelson-logd, all else to that of PID 1. It knows nothing
//! of the messages within, but of those that it makes the text of `/metrics` from. What it adds is the identity of the client; what a client sends under that name is dropped.
//! It is two processes ([`keeper`]): the one that strangers reach ([`worker`]) has no rights and reads no files.
//! A fault in TLS or HTTP/2 met by strangers costs a restart of this process, not the machine.
//!
//! Its log is stderr.

mod arguments;
mod crowd;
mod forward;
mod keeper;
mod listen;
mod material;
mod metrics;
mod notify;
mod page;
mod peer;
mod relay;
mod term;
mod tls;
mod worker;

use std::ffi::OsString;

use crate::error::ApiError;
use arguments::Arguments;

/// Runs until SIGTERM or SIGINT; the exit status: 0 ended as asked, 1 failed, 2 wrong arguments.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    let run = |arguments| keeper::run(&Arguments::parse(arguments)?);
    match run(arguments) {
        Ok(status) => status,
        Err(error) => {
            say(&error.to_string());
            if matches!(error, ApiError::Usage(_)) { 2 } else { 1 }
        }
    }
}

/// One line of the log.
fn say(line: &str) {
    use std::io::Write as _;
    // Where stderr is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}
