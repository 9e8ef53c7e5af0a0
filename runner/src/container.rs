//! What a container is like, whoever runs it: the specification of OCI.

mod capabilities;
mod devices;
mod limits;
mod mounts;
pub(crate) mod oci;
pub(crate) mod spec;
