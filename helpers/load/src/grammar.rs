//! The keys of the configuration files, as data: one file for each part of them.
//!
//! A [`Mapping`] lists the keys of a mapping, and everything is made of it: the decoder, what `kelsonctl status` shows, the
//! JSON schemas and the tables of the documents.

mod at;
mod attributes;
mod checks;
mod codec;
mod combination;
mod command;
mod confinement;
mod console;
mod container;
mod devices;
mod directories;
mod encryption;
mod environment;
mod fact;
mod fleet;
mod group;
mod hooks;
mod images;
mod input;
mod kexec;
mod machine;
mod mapping;
mod membership;
mod mount;
mod network;
mod partitions;
mod paths;
mod plugin;
mod ports;
mod probes;
mod readiness;
mod registration;
mod registries;
mod requirement;
mod restart;
mod sandbox;
mod schedule;
mod secrets;
mod seen;
mod service;
mod sockets;
mod sources;
mod swap;
mod templates;
mod time;
mod user;
mod values;
mod volume_file;
mod volumes;

pub use container::MOUNT_OPTIONS;
pub use group::{group, group_file};
pub use machine::{DecodedMachine, machine, machine_file};
pub use mapping::Mapping;
pub use sandbox::error_number;
pub use service::{service, service_file, service_name, written};
pub use volume_file::{volume, volume_file};
