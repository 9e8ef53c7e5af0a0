//! The process `kelson-volumes`: claims, stages and publishes the volumes of storage plugins for services, and undoes it.
//!
//! One thread, and others for calls of the system that may hang. The [`core`] decides what comes next for each volume;
//! the [`world`] does it, by calls of the plugins; the [`engine`] connects both.
//! Each step is [recorded](record) before it is done, so this process may end at any instant: the next one continues.

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

mod action;
mod connection;
mod core;
mod csi;
mod engine;
mod gauges;
mod job;
mod path;
mod place;
mod plugins;
mod provider;
mod record;
mod secret;
#[cfg(test)]
mod simulation;
mod snapshot;
mod statistics;
mod status;
mod usage;
mod world;

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use kelson_helper::{exit, link, transport};
use kelson_proto::v1::volumes_command::Command;
use kelson_proto::v1::volumes_report::Report;
use kelson_proto::v1::{VolumesCommand, VolumesReport};
use kelson_spec::sources;
use kelson_sys::process;

use crate::core::Core;
pub use crate::core::Limits;
use engine::Engine;
use place::Places;
pub use plugins::Deadlines;
use plugins::Plugins;
use record::Folder;
use world::Host;

const USAGE: &str = "kelson-volumes has the volumes of storage plugins for init, which starts it.";

/// The folder of the records in the state folder.
const RECORDS: &str = "volumes";
/// Steps beyond these are not kept while PID 1 takes nothing: its answers are.
const STEPS_MAX: usize = 4096;

type Link = link::Link<VolumesCommand, VolumesReport>;

/// Runs it until PID 1 asks it to end or is gone; gives the exit status. Descriptor 3 is the socket to PID 1; the words
/// are the state folder, the runtime folder and that of the configuration.
pub fn main(words: &[OsString]) -> i32 {
    let folders = match words {
        [state, runtime, config] => {
            Some(Folders { state: state.into(), runtime: runtime.into(), config: config.into() })
        }
        _ => None,
    };
    let ended = match folders {
        Some(folders) => serve(folders, Deadlines::default(), Limits::default()),
        None => Err(io::Error::other(USAGE)),
    };
    exit::status("kelson-volumes", ended)
}

/// What the words of the process name.
#[derive(Debug, Clone)]
pub struct Folders {
    /// With the records, and the secrets of the host.
    pub state: PathBuf,
    /// With what sources of the configuration gave.
    pub runtime: PathBuf,
    /// With the files of volumes.
    pub config: PathBuf,
}

/// Serves PID 1 with these times.
///
/// # Errors
/// When descriptor 3 is no socket to PID 1.
pub fn serve(folders: Folders, deadlines: Deadlines, limits: Limits) -> io::Result<()> {
    let control = transport::control()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let Folders { state, runtime: runtime_folder, config } = folders;
    let layers = runtime_folder.join(sources::FOLDER);
    let read_file = move |name: &str| kelson_load::volumes::read(name, &config, Some(&layers));
    let host = Host {
        plugins: Plugins::default(),
        records: Folder::new(&state.join(RECORDS)),
        read_file: Arc::new(read_file),
        open_secret: secret::of_host(state, runtime_folder),
        deadlines,
        places: Places::new(deadlines.system),
        rooms: Places::new(deadlines.identity),
    };
    let ended = runtime.block_on(run(control, host, limits));
    // A call of the system may hang; nobody waits for it.
    runtime.shutdown_background();
    ended
}

async fn run(control: OwnedFd, host: Host, limits: Limits) -> io::Result<()> {
    let mut link = Link::new(control)?;
    let (records, troubles) = host.records.read();
    troubles.into_iter().for_each(|trouble| report(&mut link, Report::Trouble(trouble)));
    let core = Core::new(records, process::boot_id().unwrap_or_default(), limits);
    let mut engine = Engine::new(Arc::new(host), core);
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
        while let Some(one) = engine.report() {
            report(&mut link, one);
        }
        link.flush()?;
        tokio::select! {
            () = link.ready() => {}
            () = engine.wait() => {}
        }
    }
}

fn report(link: &mut Link, report: Report) {
    let is_step = matches!(report, Report::Step(_) | Report::Trouble(_));
    if !is_step || link.unsent() < STEPS_MAX {
        link.report(VolumesReport { report: Some(report) });
    }
}
