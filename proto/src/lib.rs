//! The protocol of Kelson and the records of its state: the code generated from `kelson/*/v1/*.proto`, the role that each
//! method needs, and the names that both ends of a call have to know.

pub mod access;
pub mod call;
mod secret;
pub mod server;

/// Version 1 of the API.
#[allow(clippy::all, clippy::pedantic, clippy::restriction, missing_docs)]
pub mod v1 {
    tonic::include_proto!("kelson.v1");

    /// The compiled descriptors, for server reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kelson.v1.bin"));
}

/// The records that PID 1 writes for the next incarnation.
pub mod state {
    /// Version 1.
    #[allow(clippy::all, clippy::pedantic, clippy::restriction, missing_docs)]
    pub mod v1 {
        tonic::include_proto!("kelson.state.v1");
    }
}

/// Faults on demand, for tests. A release neither serves nor calls them.
pub mod test {
    /// Version 1.
    #[allow(clippy::all, clippy::pedantic, clippy::restriction, missing_docs)]
    pub mod v1 {
        tonic::include_proto!("kelson.test.v1");
    }
}
