//! The service and machine files: types, parser, pointed errors, the dependency graph.
//!
//! PID 1 itself never parses a file from the disk: the personality `kelson-load` does, and hands over [`Loaded`]
//! in the form of [`wire`]. The way of a file: [`read`] bounds what is taken from the disk, [`tree`] makes values with
//! positions of it, [`decode`] makes specs and pointed mistakes of those, [`graph`] checks what the specs say of each other.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod accounts;
mod certificates;
mod containers;
mod decode;
mod environment;
pub mod graph;
pub mod group;
mod groups;
mod kernel;
pub mod load;
mod loaded;
pub mod machine;
pub mod names;
mod near;
pub mod pattern;
pub mod personality;
mod quote;
mod read;
mod reload;
pub mod render;
pub mod schema;
pub mod service;
mod tree;
pub mod units;
pub mod wire;

pub use accounts::APID_USER;
pub use graph::{Graph, StopOrder, edges_of};
pub use group::GroupSpec;
pub use kernel::{CAPABILITIES, CONTAINER_CAPABILITIES, LIMITS, parse_signal, signal_name, signal_names};
pub use load::single::{FileKind, LoadedFile, is_configuration, load_file};
pub use load::{Mode, Sources, Switch, load, load_with};
pub use loaded::{Diagnostic, Loaded, Refused, Unchecked};
pub use machine::MachineSpec;
pub use names::DEFAULT_PATH;
pub use near::near;
pub use quote::quoted;
pub use reload::MachineReload;
pub use service::ServiceSpec;
pub use units::{duration as parse_duration, duration_text, size as parse_size, size_text};
