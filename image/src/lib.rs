//! PID 1's part in service images: references, digests, and the clients of `kelson-unpack` and `kelson-pull`.
//!
//! The helper `kelson-unpack` (crate `unpack`) does the work: PID 1 never runs code that reads an archive. [`Unpacker`]
//! starts a helper for a piece of work, receives its [`Report`]s, and kills it when nothing waits for the work any
//! more. Both sides write and read [`Arguments`] and frames of reports with the code of this crate.

mod arguments;
mod digest;
mod frame;
mod puller;
mod reference;
mod remote;
mod report;
mod unpacker;

pub use arguments::{Arguments, NAME, Purpose, REPORT_DESCRIPTOR, UnpackerOptions, Work};
pub use digest::{Digest, DigestError};
pub use frame::{bounded, encode};
pub use kelson_spec::image::ImageConfig;
pub use puller::{PULL, PullQuestion, PullWork, Puller, PullerOptions};
pub use reference::{Reference, ReferenceError, is_tag};
pub use remote::{Remote, Version};
pub use report::{ImageRow, Progress, Pruned, Pulled, Report, Unpacked};
pub use unpacker::{Listing, News, PruneResult, UnpackFailure, Unpacker};
