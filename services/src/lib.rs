//! All the services of the host: the state machine of one, the Manager of all, events, recovery state.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod admission;
pub mod builtins;
pub mod collector;
mod error;
pub mod events;
pub mod fleet;
pub mod groups;
mod hardware;
pub mod health;
pub mod helpers;
pub mod host;
pub mod images;
pub mod inspect;
pub mod last_resort;
pub mod manager;
pub mod messages;
pub mod metrics;
pub mod model;
pub mod node_health;
mod owned_helper;
mod pace;
pub mod prober;
pub mod run_end;
pub mod runners;
pub mod service_runner;
#[cfg(test)]
mod stand_in;
pub mod state_store;
pub mod timers;
pub mod volumes;

/// The arguments and results of [`Manager::exec`].
pub mod exec {
    pub use kelson_runner::{BoxFuture, ExecControl, ExecRequest, Executing, Exit, WindowSize};
}

pub use error::{ErrorKind, ServicesError};
pub use kelson_conditions as conditions;
pub use kelson_spec as spec;
pub use manager::Manager;
pub use model::{Event, Snapshot, State};
