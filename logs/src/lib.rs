//! Service logs: the face by which PID 1 hands over pipes, and the personality `kelson-logd` that reads them.
//!
//! PID 1 makes two pipes a run and keeps copies of their read ends; [`Collector`] hands the read ends to `kelson-logd`
//! over a socket and watches that they are read. Whatever becomes of logd costs no service anything: a new one gets the
//! same pipes. The process itself is [`logd`]: one thread that reads, one that writes, one that answers `logs`.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::indexing_slicing))]

pub mod collector;
mod control;
pub mod logd;
pub mod places;

pub use collector::{
    BoxFuture, Collector, InheritedLog, Judge, Keeper, KeptLog, Launched, Launcher, LogOptions, LogdStatus,
    Report, forgetful,
};

/// Whether it may be the name of a service, and so part of the name of a file.
pub(crate) fn valid_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.len() <= 63
        && bytes.first().is_some_and(plain)
        && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
}
