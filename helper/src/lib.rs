//! The interface between PID 1 and its helper processes: how one is started, the transport between them, and
//! the messages of each helper.
//!
//! PID 1's side of a helper is in the crates above, the helper itself in `helpers/`. Neither imports the other.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::indexing_slicing))]

pub mod answer;
pub mod exit;
pub mod inspect;
mod launch;
pub mod link;
pub mod log;
pub mod notify;
pub mod places;
pub mod probe;
pub mod random;
pub mod signals;
pub mod supervisor;
pub mod task;
pub mod transport;
pub mod user;

pub use futures_util::future::BoxFuture;
pub use launch::{CONTROL, Launched, Launcher, Lease, Start};
