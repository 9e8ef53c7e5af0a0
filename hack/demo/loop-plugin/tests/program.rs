//! The program as the tests start it. A package without a test of its program would not have it built for theirs.

use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn the_program_takes_connections_until_it_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("csi.sock");
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_kelson-demo-loop-plugin"))
        .env("CSI_ENDPOINT", format!("unix://{}", socket.display()))
        .env("LOOP_FOLDER", folder.path().join("volumes"))
        .spawn()
        .expect("it starts");
    let until = Instant::now() + Duration::from_secs(30);
    while UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < until, "it does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(plugin.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
    assert!(plugin.wait().expect("it ends").success());
    assert!(folder.path().join("volumes").is_dir());
}
