//! The process `kelson-probe`: asks what PID 1 wants asked, and tells it what came of it.
//!
//! One thread. The [`asker`] knows which check is due and asks; most connections on this host are made at once, others
//! are waited for side by side. The [`link`] is the socket to PID 1: whatever PID 1 does, nothing here waits for it, and
//! what it does not take is bounded. It opens no file, and needs no rights: a peer that breaks it has broken a process
//! that can do nothing but connect.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::indexing_slicing))]

mod agenda;
mod ask;
mod asker;
mod confine;
mod fault;
mod link;
mod outbox;

use std::ffi::OsString;
use std::io;

use asker::Asker;
use kelson_helper::exit;
use link::Link;

/// Threads on which long patterns are searched for.
const SEARCHES: usize = 2;

const USAGE: &str = "kelson-probe asks network checks for init, which starts it.";

/// Runs it until PID 1 asks it to end or is gone; gives the exit status. Descriptor 3 is the socket to PID 1.
pub fn main(args: impl Iterator<Item = OsString>) -> i32 {
    if args.count() > 0 {
        exit::say(USAGE);
        return 2;
    }
    exit::status(kelson_helper::probe::NAME, run())
}

fn run() -> io::Result<()> {
    let control = kelson_helper::transport::control().inspect_err(|_| exit::say(USAGE))?;
    confine::give_up()?;
    let connections = confine::connections();
    fault::install(control.try_clone()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(SEARCHES)
        .build()?;
    let ended = runtime.block_on(async { Asker::new(Link::new(control)?, connections).run().await });
    // A search for a pattern may be under way; nobody waits for it.
    runtime.shutdown_background();
    ended
}
