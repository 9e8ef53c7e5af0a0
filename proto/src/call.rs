//! The names and limits that both ends of a call have to know: metadata, sockets, sizes.

/// Metadata by which kelson-apid names the caller to PID 1. kelson-apid drops what a client sends under this name.
pub const IDENTITY: &str = "kelson-identity";

/// Metadata by which kelson-apid names the caller's role to PID 1; absent where the certificate has none.
pub const ROLE: &str = "kelson-role";

/// Metadata of each answer by which kelson-apid tells for how many more seconds the client's certificate is valid.
pub const ENDS_IN: &str = "kelson-ends-in";

/// Longest identity that is accepted, in bytes.
pub const IDENTITY_MAX: usize = 256;

/// Longest request that is accepted, in bytes.
pub const MESSAGE_MAX: usize = 1 << 20;

/// The socket of PID 1 within the runtime directory.
pub const INIT_SOCKET: &str = "init.sock";

/// The socket of kelson-logd, beside [`INIT_SOCKET`].
pub const LOG_SOCKET: &str = "log.sock";

/// The vsock ports at which PID 1 can serve: logs are at the next one, and the largest number means "any".
pub const VSOCK_PORTS: std::ops::Range<u32> = 1..u32::MAX - 1;

/// The vsock port of logs, where PID 1 serves at `port`.
pub const fn vsock_log_port(port: u32) -> u32 {
    port.saturating_add(1)
}
