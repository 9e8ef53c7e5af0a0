//! The ServiceRunner task and the Manager as they are, over played services and a clock that jumps.
#![allow(clippy::arithmetic_side_effects, reason = "a test that overflows has failed, as it should")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that panics has failed"
)]

mod clocks;
mod crossing;
mod exec;
mod facts;
mod fate;
mod gates;
mod group_checks;
mod groups;
mod health;
mod health_commands;
mod health_network;
mod hooks;
mod house;
mod images;
mod lines;
mod many;
mod node_health;
mod random;
mod readiness;
mod recovery;
mod reload;
mod restarts;
mod run_end;
mod stage;
mod stopping;
mod when_down;
