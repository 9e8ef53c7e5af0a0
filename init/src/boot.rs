//! The boot: named phases one after the other, each of named tasks, timed, with a report that anybody can watch.
//!
//! [`Sequence`] runs phases; what is in them stands in [`machine`] and [`container`]. A task that fails says so and
//! the boot goes on, unless the task is essential: then nothing that comes after can work, and the boot has failed
//! ([`crate::failure`]).

pub mod absent;
pub mod container;
pub mod devices;
pub mod disks;
pub mod encryption;
pub mod file_limit;
pub mod history;
pub mod machine;
pub mod mounts;
pub mod network;
pub mod partitions;
pub mod root;
pub mod runtime_dir;
pub mod sequence;
pub mod sources;
pub mod state_folder;
pub mod swap;

pub use sequence::{BootFailure, Order, Phase, Sequence, Task, TaskFailure};
