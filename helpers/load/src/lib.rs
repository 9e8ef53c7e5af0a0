//! The helper `kelson-load`: parses and validates the configuration files, so that PID 1 does not have to.
//!
//! A file takes this path: [`read`] bounds what is taken from the disk, [`parser`] and [`tree`] turn the YAML into values
//! with positions, [`grammar`] turns those into specs and diagnostics, and `kelson_spec::graph` checks the references
//! between specs. [`process`] writes the result for PID 1 in the form of `kelson_spec::wire`.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod accounts;
mod calls;
mod certificates;
mod containers;
mod decode;
mod environment;
pub mod files;
mod filter;
mod folder;
mod grammar;
mod groups;
mod imported;
mod json;
mod member;
#[cfg(feature = "describe")]
mod origins;
mod parser;
pub mod process;
mod read;
mod scalars;
pub mod schema;
mod sources;
mod store;
pub mod tree;
pub mod volumes;

pub use calls::{is_known as is_system_call, members as system_calls};
pub use environment::{name_mistake as variable_mistake, parse as environment_file};
pub use folder::single::{FileKind, LoadedFile, is_configuration, load_file};
pub use folder::{load, load_with};
pub use grammar::{MOUNT_OPTIONS, error_number, written};
pub use imported::Importer;
pub use json::Json;
#[cfg(feature = "describe")]
pub use origins::{Origin, origins};
pub use parser::{guarded, parse};
pub use scalars::scalars;
pub use sources::{Mode, Sources, Switch};
pub use store::{TREE_MAX, name_mistake, read_tree};
