//! The helper `kelson-apid`: the API endpoint of a machine for clients on the network.
//!
//! It listens on TCP, terminates mutual TLS (1.3, a client certificate that the CA has signed), and forwards each call
//! byte for byte to the Unix sockets: the Logs service to that of kelson-logd, all others to that of PID 1. It decodes
//! no message but those of which it makes the text of `/metrics`. It adds the identity of the client and drops what a
//! client sends under that name. It is two processes ([`key_holder`]): the one that clients reach ([`tls_worker`]) has no
//! rights and reads no files. A fault in TLS or HTTP/2 costs a restart of this process, not the machine.
//!
//! Its log is stderr.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod arguments;
pub mod certificate;
mod early_clock;
mod error;
mod forward;
mod key_holder;
mod limiter;
mod listen;
mod material;
mod metrics;
pub mod openmetrics;
mod page;
mod peer;
mod relay;
mod term;
mod tls;
mod tls_worker;

use std::ffi::OsString;

use arguments::Arguments;
use error::ApidError;

/// Runs until SIGTERM or SIGINT; the exit status: 0 ended as asked, 1 failed, 2 wrong arguments.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    let run = |arguments| key_holder::run(&Arguments::parse(arguments)?);
    match run(arguments) {
        Ok(status) => status,
        Err(error) => {
            say(&error.to_string());
            if matches!(error, ApidError::Usage(_)) { 2 } else { 1 }
        }
    }
}

/// One line of the log.
fn say(line: &str) {
    use std::io::Write as _;
    // Where stderr is closed nobody can read it.
    let _ = writeln!(std::io::stderr(), "{line}");
}
