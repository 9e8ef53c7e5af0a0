//! Network checks: the face by which PID 1 has them asked, and the personality `kelson-probe` that asks.
//!
//! PID 1 opens no network port and reads no peer's HTTP, TLS or gRPC. It tells `kelson-probe` over a socket which
//! checks to ask and how often; the probe keeps the time itself and sends back what came of them, many at once.
//! [`Prober`] is PID 1's side: it starts a probe when there is something to ask, replaces one that dies or freezes, and
//! hands each result to the [`Sink`] of its check. [`personality`] is the process itself.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::indexing_slicing))]

pub mod personality;
mod prober;
mod random;
mod wire;

pub use prober::{
    BoxFuture, CheckAnswer, Launched, Launcher, Place, Prober, ProberStatus, Report, Schedule, Sink, Watch,
};
pub use wire::Verdict;

/// The name under which the personality is started.
pub const NAME: &str = "kelson-probe";

/// What its cgroup is to allow it, in bytes. Measured: 3 MiB with a thousand tcp checks, 8 MiB with ten thousand; the rest
/// is for the connections that can be open at a time, should all peers send the most that is taken from one.
pub const MEMORY_MAX: u64 = 128 << 20;
