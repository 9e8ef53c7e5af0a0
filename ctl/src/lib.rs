//! `kelsonctl`: the command line of Kelson. A library, so that what it reads from hosts can be fuzzed.
//!
//! A command is one file in [`commands`]; how things look is decided in [`output`] alone; where the host is, in
//! [`contexts`], and where there are several, in [`nodes`]. Each command ends with a status that scripts can rely on, see [`failure`].

// A panic ends one call of kelsonctl, and never PID 1; drawings would be unreadable in checked arithmetic.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(test, allow(clippy::cast_possible_wrap))]

mod call;
pub mod cli;
mod commands;
mod completion;
mod configuration;
mod console;
mod contexts;
mod dashboard;
mod extract;
mod failure;
mod follow;
mod hints;
mod man;
mod node;
mod nodes;
mod output;
mod pki;
mod rolling;
#[cfg(test)]
mod samples;
mod store;
mod support;
mod targets;
mod watch;
mod watching;

pub use call::Call;
pub use contexts::Choice;
pub use output::Format;
pub use output::style::Palette;
pub use output::terminal::Terminal;

use std::process::ExitCode;

use cli::Cli;
use failure::Failure;

/// Does what the command line says, and ends with its status.
pub fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => hints::with_related(error).exit(),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(said) = failure.unsaid() {
                output::note(&said);
            }
            ExitCode::from(failure.exit_status())
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let Some(command) = cli.command else {
        return output::print(&cli::help());
    };
    let nodes = cli.global.nodes.clone();
    let call = call::Call::new(cli.global, cli::command);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot set up the event loop: {error}")))?
        .block_on(watch::run(command, cli.watch, call, &nodes))
}
