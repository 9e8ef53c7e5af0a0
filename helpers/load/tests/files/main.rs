//! Configuration files: sound ones, mistakes, and what is made of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test that panics has failed, as it should"
)]

mod containers;
mod directories;
mod docs;
mod dynamic_users;
mod features;
mod fleet;
mod folder;
mod folders;
mod full;
mod group_files;
mod groups;
mod hostile;
mod images;
mod input;
mod instances;
mod large;
mod layers;
mod mistakes;
mod order;
mod other_programs;
mod paths;
mod plugins;
mod probes;
mod readiness;
mod registered;
mod schedule;
mod schema;
mod sockets;
mod templates;
mod volume_files;
mod volumes;
