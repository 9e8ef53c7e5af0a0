//! The process `kelson-inspect`, which reads what the kernel and the disks say.
//!
//! PID 1 starts one for each question of an operator and hands it on as it comes ([`kelson_helper::inspect`]). So nothing that a file of
//! proc says is parsed in PID 1, and a disk that does not answer holds up that one process.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::indexing_slicing))]

mod answer;
mod cgroups;
mod clock;
mod copy;
mod cpu;
mod disks;
mod facts;
mod files;
mod memory;
mod mounts;
mod network;
mod owners;
mod personality;
mod platform;
mod pressure;
mod processes;
mod read;
mod sockets;
mod system;
mod write;

pub use personality::{main, serve};
pub use system::System;
