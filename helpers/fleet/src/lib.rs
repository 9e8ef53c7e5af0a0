//! The process `kelson-fleet`: registers the host and its services in etcd or Consul, and answers questions about the fleet.
//!
//! One thread. The [`core`] decides what comes next, the [`session`] does it in the store, and the [`engine`] connects
//! both. This process may end at any instant: the lease outlives it, and the next one continues with it.

#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod attempt;
mod cause;
pub mod certificates;
mod clock;
mod connection;
mod consul;
mod core;
mod engine;
mod entry;
mod identity;
mod key;
mod limits;
mod list;
mod member;
mod membership;
mod plan;
mod range;
mod received;
#[cfg(test)]
mod scale;
mod session;
mod step;
mod template;
mod watch;
mod work;

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use kelson_helper::{exit, link, transport};
use kelson_proto::v1::fleet_command::Command;
use kelson_proto::v1::{FleetCommand, FleetReport};

pub use connection::Connection;
use engine::Engine;
pub use key::{is_host, is_name};
pub use limits::Limits;
use nix::sys::resource::{Resource, setrlimit};

const USAGE: &str = "kelson-fleet registers the host in its fleet for init, which starts it.";

/// Reports beyond these mean that PID 1 takes none: it gets them all from the next helper.
const REPORTS_MAX: usize = 65_536;
/// Bytes of data. A template that needs more ends the process, also where its cgroup has no limit.
const MEMORY: u64 = 256 << 20;

/// Runs it until PID 1 asks it to end or is gone; gives the exit status. Descriptor 3 is the socket to PID 1; the words
/// are the state folder and the runtime folder.
pub fn main(words: &[OsString]) -> i32 {
    let ended = match words {
        [state, runtime] => {
            let folders = Folders { state: state.into(), runtime: runtime.into() };
            serve(&folders, Limits::default())
        }
        _ => Err(io::Error::other(USAGE)),
    };
    exit::status("kelson-fleet", ended)
}

/// What the words of the process name.
#[derive(Debug, Clone)]
pub struct Folders {
    /// With the id of the host, and its certificate.
    pub state: PathBuf,
    /// With its lease.
    pub runtime: PathBuf,
}

/// Serves PID 1 with these times.
///
/// # Errors
/// When descriptor 3 is no socket to PID 1.
pub fn serve(folders: &Folders, limits: Limits) -> io::Result<()> {
    let control = transport::control()?;
    setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let ended = runtime.block_on(run(control, folders, limits));
    // A read of a certificate may hang; nobody waits for it.
    runtime.shutdown_background();
    ended
}

async fn run(control: OwnedFd, folders: &Folders, limits: Limits) -> io::Result<()> {
    let mut link = link::Link::<FleetCommand, FleetReport>::new(control)?;
    let mut engine = Engine::new(&folders.state, &folders.runtime, limits)?;
    loop {
        let ended = link.each(|message| {
            match message.command {
                Some(Command::Stop(_)) => return ControlFlow::Break(()),
                Some(command) => engine.command(command),
                None => {}
            }
            ControlFlow::Continue(())
        })?;
        if ended.is_break() {
            return Ok(());
        }
        engine.act();
        while let Some(report) = engine.report() {
            link.report(FleetReport { report: Some(report) });
        }
        link.flush()?;
        if link.unsent() > REPORTS_MAX {
            return Err(io::Error::other("PID 1 takes no reports"));
        }
        tokio::select! {
            () = link.ready() => {}
            () = engine.wait() => {}
        }
    }
}
