//! What a container is like, for both runtimes: the specification of OCI.

mod capabilities;
mod devices;
mod limits;
pub(crate) mod mounts;
pub mod oci;
pub(crate) mod spec;

pub use mounts::listed_mount;
