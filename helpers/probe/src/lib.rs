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
mod link;
mod outbox;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use asker::Asker;
use link::Link;

/// The socket to PID 1.
const CONTROL: i32 = 3;
/// Threads on which long patterns are searched for.
const SEARCHES: usize = 2;

const USAGE: &str = "kelson-probe asks network checks for init, which starts it.";

/// Runs it until PID 1 asks it to end or is gone; gives the exit status. Descriptor 3 is the socket to PID 1.
pub fn main(args: impl Iterator<Item = OsString>) -> i32 {
    if args.count() > 0 {
        say(USAGE);
        return 2;
    }
    match run() {
        Ok(()) => 0,
        Err(error) => {
            say(&format!("{}: {error}", kelson_helper::probe::NAME));
            1
        }
    }
}

/// To whoever started it by hand; nobody may be there.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn run() -> io::Result<()> {
    let control = take_control()?;
    confine::give_up()?;
    let connections = confine::connections();
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

/// Descriptor 3, if it is a socket.
fn take_control() -> io::Result<UnixStream> {
    // SAFETY: the descriptor is ours by the contract with whoever started us; if it is not open the next call says so.
    let control = unsafe { OwnedFd::from_raw_fd(CONTROL) };
    nix::sys::socket::getsockopt(&control, nix::sys::socket::sockopt::SockType).inspect_err(|_| {
        say(USAGE);
    })?;
    nix::fcntl::fcntl(&control, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    let control = UnixStream::from(control);
    control.set_nonblocking(true)?;
    Ok(control)
}
