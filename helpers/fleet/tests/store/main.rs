//! Tests kelson-fleet against a real etcd.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test may fail"
)]

mod consul;
mod discovery;
mod etcd;
mod host;
mod members;
mod plans;
mod silence;
mod templates;

#[test]
#[ignore = "not a test: the processes of the tests"]
fn personality() {
    host::personality();
}
