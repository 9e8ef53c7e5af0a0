//! PID 1 at work: boots, supervises, answers, and ends the run of the host.
//!
//! This connects the crates below it and decides nothing that they can decide. From top to bottom: an [`Incarnation`]
//! boots the host ([`begin`]) or goes on with it ([`resume`]) while it listens to signals; [`opening`] makes the
//! [`context`], which serves the host until it is to end; [`serve`] then stops everything in order and hands over to
//! [`crate::shutdown`].

mod absent_disks;
mod api;
mod applied;
mod begin;
mod builtin;
mod claim_runner;
mod command;
mod configuration;
mod context;
mod directory_runner;
mod encrypted_disks;
mod entrance;
mod environment;
mod files;
mod image_runner;
mod incarnation;
mod input_runner;
mod intent;
mod ipc_runner;
mod kexec;
mod late_sources;
mod later_mounts;
mod launchers;
mod listeners;
mod main_service;
mod network_runner;
mod opening;
mod parts;
mod pid_file_runner;
mod plugin_runner;
mod provided_runner;
mod reaper;
mod reexec;
mod renewal;
mod resume;
mod secret_runner;
mod secrets;
mod serve;
mod sockets;
mod template_runner;
mod trial;
mod view_runner;
mod volume_check;
mod volume_runner;

use std::sync::Arc;

use kelson_services::state_store::Past;
use tokio::sync::mpsc;

pub use environment::cgroups;
pub use incarnation::process_options;
pub use intent::{Intent, Intents, verb};
pub use launchers::Personalities;
pub use reaper::attend;
pub use serve::Ended;

use crate::boot::Sequence;
use crate::crash::BootReason;
use crate::error::{At as _, Result};
use crate::options::Options;
use crate::reexec::ReexecState;
use crate::signals::Signals;
use incarnation::Incarnation;
use reaper::{Reaper, listen};

/// How many signals may wait for the main loop.
const SIGNALS: usize = 16;

/// Boots the host, or goes on with it, runs it, and stops its services. Returns when none is left.
///
/// # Errors
/// When not even children can be made or signals be read: then there is nothing that PID 1 could do.
pub async fn run(
    options: Options,
    sequence: Sequence,
    reexec_state: ReexecState,
    past: Option<Past>,
    boot_reason: BootReason,
) -> Result<Ended> {
    let binary = Arc::new(crate::memory::exe_fd().at("/proc/self/exe")?);
    let intents = Intents::default();
    let reaper = Reaper::default();
    let signals = Signals::new(options.mode).at("signalfd")?;
    let (sender, requests) = mpsc::channel(SIGNALS);
    kelson_sys::spawn(listen(signals, reaper.clone(), intents.clone(), sender));
    let sequence = Arc::new(sequence);
    let incarnation = Incarnation { options, sequence, reexec_state, binary, intents, reaper, boot_reason };
    match past {
        Some(past) => incarnation.resume(past, requests).await,
        None => incarnation.begin(requests).await,
    }
}
