//! The gRPC API.
//!
//! Two parts, each behind a feature of its name:
//! - `server`: what PID 1 serves on its Unix socket, over the Manager of `kelson-services`;
//! - `client`: how the command line reaches a host, over the Unix socket or (feature `tls`) over mutual TLS.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))] // tests may panic

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
mod error;
#[cfg(feature = "server")]
pub mod server;

#[cfg(feature = "server")]
pub use error::ApiError;
