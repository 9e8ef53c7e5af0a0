//! Looking at the machine: the personality `kelson-inspect`, which reads what the kernel and the disks say.
//!
//! PID 1 starts one for each question of an operator and hands it on as it comes ([`wire`]). So nothing that a file of
//! proc says is parsed in PID 1, and a disk that does not answer holds up that one process.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::indexing_slicing))]

mod answer;
mod cgroups;
mod clock;
mod copy;
mod cpu;
mod disks;
mod files;
mod memory;
mod mounts;
mod owners;
pub mod personality;
mod pressure;
mod processes;
mod read;
mod sockets;
mod system;
pub mod wire;
mod write;

pub use system::System;

/// The name under which the personality is started.
pub const NAME: &str = "kelson-inspect";

/// What its cgroup is to allow it, in bytes: many times what it takes, and little for a host.
pub const MEMORY_MAX: u64 = 64 << 20;
