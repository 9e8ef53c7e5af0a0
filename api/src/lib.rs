//! The way into Kelson from outside: gRPC.
//!
//! Three parts, each behind a feature of its name:
//! - `server`: what PID 1 serves on its Unix socket, over the Manager of `kelson-services`;
//! - `client`: how the command line reaches a host, over the Unix socket or (feature `tls`) over mutual TLS;
//! - `door`: the personality `kelson-apid`, which ends TLS and forwards each call, byte for byte, to the Unix sockets.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))] // tests may panic

#[cfg(any(feature = "server", feature = "door", feature = "client"))]
pub mod access;
#[cfg(any(feature = "door", feature = "tls"))]
pub mod certificate;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "door")]
pub mod door;
mod error;
#[cfg(any(feature = "client", feature = "door"))]
pub mod openmetrics;
#[cfg(feature = "server")]
pub mod server;

pub use error::ApiError;

/// Metadata by which kelson-apid tells PID 1 on whose behalf it calls. What a client sends under it is dropped.
pub const IDENTITY: &str = "kelson-identity";

/// Metadata by which kelson-apid tells PID 1 the role of whoever it calls for; none where the certificate has none.
pub const ROLE: &str = "kelson-role";

/// Metadata of each answer by which kelson-apid tells for how many more seconds the client's certificate holds.
pub const ENDS_IN: &str = "kelson-ends-in";

/// Longest identity that is taken, in bytes.
pub const IDENTITY_MAX: usize = 256;

/// Longest request that is taken, in bytes.
pub const MESSAGE_MAX: usize = 1 << 20;

/// The socket of PID 1 within the runtime directory.
pub const INIT_SOCKET: &str = "init.sock";

/// The socket of kelson-logd, beside [`INIT_SOCKET`].
pub const LOG_SOCKET: &str = "log.sock";
