//! Secrets of services: sealed on the disk with the key of the host, and placed as files in memory for a service that starts.
//!
//! `kelson-task` calls this for PID 1, which knows the names of secrets and never reads a value.
//!
//! - `sealed`: the form of a sealed value. `host_key`: the key of the host.
//! - `store`: [`Store`], the folder of the sealed values.
//! - `place`: the files of a service, in `memory`.
//! - [`given`]: the secrets that sources of the configuration give. [`held`]: those of this boot, in memory too.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::indexing_slicing))]

mod error;
mod folder;
pub mod given;
pub mod held;
mod host_key;
mod memory;
mod place;
mod sealed;
mod store;

pub use error::SecretError;
pub use place::{Owner, place, renew, withdraw};
pub use sealed::{Key, Opened, open, seal};
pub use store::Store;
