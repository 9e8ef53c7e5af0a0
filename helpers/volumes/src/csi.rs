//! The Container Storage Interface, version 1.13: generated from `proto/csi.proto`.

/// Version 1.
#[allow(clippy::all, clippy::pedantic, clippy::restriction, missing_docs, rustdoc::all)]
pub mod v1 {
    tonic::include_proto!("csi.v1");
}
