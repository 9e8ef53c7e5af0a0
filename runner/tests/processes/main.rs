//! The process runner as PID 1 of a namespace of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test that panics has failed, as it should"
)]

mod attaching;
mod descriptors;
mod exec;
mod hooks;
mod network;
#[path = "../pid_one/mod.rs"]
mod pid_one;
mod reaping;
mod starting;
mod stopping;
