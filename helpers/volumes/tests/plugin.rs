//! Tests kelson-volumes against a plugin that binds folders for real, and has faults on demand.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test may fail"
)]

mod host;

use std::fs;

use host::{Host, alone, until};

#[test]
#[ignore = "not a test: the processes of the tests"]
fn personality() {
    host::personality();
}

#[test]
fn a_volume_is_published_and_undone() {
    alone("a_volume_is_published_and_undone", || {
        let mut host = Host::new();
        host.volume("data");
        let mut helper = host.helper();
        helper.send(host.claim("db", 1, &["data"]));
        assert_eq!(helper.claimed("db", 1), []);
        fs::write(host.target("db", "data").join("file"), "1").unwrap();
        assert_eq!(fs::read_to_string(host.path("state/volumes/id-data/file")).unwrap(), "1");
        assert_eq!(host.mounts().len(), 2);
        assert!(host.records().contains("id-data") && !host.records().contains("hunter2"));

        assert_eq!(helper.release("db", 1), []);
        assert!(host.mounts().is_empty() && !host.target("db", "data").exists());
        assert_eq!(fs::read_to_string(host.path("state/volumes/id-data/file")).unwrap(), "1");
        until(|| host.records().is_empty());
        assert!(!host.path("csi/fault/staging/data").exists());
        let steps = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"];
        assert_eq!(helper.steps(), steps.map(|step| format!("{step} data")));
    });
}
