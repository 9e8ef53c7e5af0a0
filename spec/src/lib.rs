//! The service and machine files: types, parser, pointed errors, the dependency graph.
//!
//! PID 1 itself never parses a file from the disk: the personality `kelson-load` does, and hands over [`Loaded`]
//! in the form of [`wire`].

pub mod load;
pub mod machine;
pub mod service;
pub mod wire;

pub use load::{Diagnostic, Loaded, load};
pub use machine::MachineSpec;
pub use service::ServiceSpec;
