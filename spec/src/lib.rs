//! The types of the service, group and machine files, their units, the dependency graph, and the form in which
//! `kelson-load` hands them to PID 1.
//!
//! No configuration file is parsed here: the helper `kelson-load` does that (`helpers/load`) and hands [`Loaded`] over
//! in the form of [`wire`].
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod applied;
pub mod builtin;
pub mod calendar;
pub mod container_network;
pub mod devices;
pub mod disk;
pub mod encryption;
pub mod facts;
pub mod features;
pub mod fleet;
pub mod graph;
pub mod group;
pub mod id_range;
pub mod image;
pub mod kernel;
pub mod loaded;
pub mod machine;
pub mod names;
pub mod near;
pub mod network;
pub mod partitions;
pub mod pattern;
pub mod places;
pub mod quote;
pub mod registries;
pub mod reload;
pub mod secrets;
pub mod service;
pub mod sources;
pub mod templates;
pub mod units;
pub mod variables;
pub mod verify;
pub mod volume_file;
pub mod vsock;
pub mod wire;

pub use features::{Feature, Features, MissingFeature};
pub use graph::{Graph, StopOrder, edges_of};
pub use group::GroupSpec;
pub use kernel::{CAPABILITIES, CONTAINER_CAPABILITIES, LIMITS, parse_signal, signal_name, signal_names};
pub use loaded::{Diagnostic, Loaded, Refused, Unchecked};
pub use machine::MachineSpec;
pub use names::DEFAULT_PATH;
pub use near::near;
pub use quote::quoted;
pub use reload::MachineReload;
pub use service::ServiceSpec;
pub use units::{duration as parse_duration, duration_text, size as parse_size, size_text};
