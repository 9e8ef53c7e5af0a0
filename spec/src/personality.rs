//! The personality `kelson-load`: reads the files of a configuration folder so that PID 1 does not have to.
//!
//! `kelson-load --config DIR` writes one [`crate::wire`] message to standard output and exits 0. What is wrong with the files
//! is in the message. Only what keeps it from writing one gives another status, and a line on standard error.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use crate::load::load;
use crate::wire;

/// Runs the personality with the arguments after its name and gives the exit status: 0 done, 1 failed, 2 usage.
pub fn main(args: &[OsString]) -> i32 {
    match run(args) {
        Ok(()) => 0,
        Err((status, message)) => {
            // Nobody is left to tell when standard error is gone too.
            let _ = writeln!(std::io::stderr(), "kelson-load: {message}");
            status
        }
    }
}

fn run(args: &[OsString]) -> Result<(), (i32, String)> {
    let config = match args {
        [flag, config] if flag == "--config" => PathBuf::from(config),
        _ => return Err((2, "usage: kelson-load --config DIR".to_owned())),
    };
    let bytes = wire::encode(&load(&config)).map_err(|error| (1, error.to_string()))?;
    let mut out = std::io::stdout().lock();
    let written = out.write_all(&bytes).and_then(|()| out.flush());
    written.map_err(|error| (1, format!("the findings cannot be handed over: {error}")))
}
