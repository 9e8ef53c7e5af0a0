//! Service images: OCI archives read, verified, brought into containerd and unpacked.
//!
//! The work is done by the personality `kelson-unpack` ([`personality`]), a process of its own: PID 1 never runs code
//! that reads an archive. PID 1 uses [`Unpacker`] alone, which starts one for a piece of work, hears its [`Report`]s
//! and kills it when nobody waits for the work any more.

pub mod archive;
mod arguments;
mod containerd;
mod frame;
pub mod personality;
mod report;
mod unpacker;

pub use arguments::{Arguments, NAME, REPORT_DESCRIPTOR, Work};
pub use frame::encode;
pub use report::{ImageRow, Progress, Pruned, Report, Unpacked};
pub use unpacker::{
    BoxFuture, Launched, Launcher, Listing, News, PruneResult, UnpackFailure, Unpacker, UnpackerOptions,
};
