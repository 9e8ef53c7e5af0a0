//! The program as the scenarios start it. A package without a test of its program would not have it built for theirs.

use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn the_program_takes_connections_at_its_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("csi/csi.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelson-fault-plugin"));
    let mut plugin = command.arg(&socket).arg(folder.path()).spawn().expect("it starts");
    let until = Instant::now() + Duration::from_secs(30);
    while UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < until, "it does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    plugin.kill().expect("it runs");
    plugin.wait().expect("it has ended");
    assert!(folder.path().join("volumes").is_dir());
}
