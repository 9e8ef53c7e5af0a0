//! What the sources of the machine file give, as files such as those of `/etc/kelson`.
//!
//! `kelson-task` fetches it and has it [written](layer) to a folder of the runtime folder; `kelson-load` lays that folder over
//! the configuration of the host. All of it comes from outside: a hypervisor, a disk, the boot loader.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::indexing_slicing))]

pub mod bundle;
pub mod command_line;
pub mod credentials;
mod error;
pub mod layer;
pub mod memory;
pub mod metadata;
pub mod no_cloud;
pub mod smbios;

pub use error::SourceError;
