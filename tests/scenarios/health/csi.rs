//! H1 for a storage plugin: it says whether it is ready, at a socket of root's, and a process asks it that can do nothing
//! but connect.

use std::fs;

use kelson_tests::{Host, eventually};

use super::{check, last_output};

const PLUGIN: &str = "process: {command: [$PROGRAM, 'csi=$DIR/csi.sock:$DIR/csi']}\n\
     restart: {delay: 100ms}\n\
     health: [{name: plugin, csi: $DIR/csi.sock, initialDelay: 0s, interval: 200ms, failureThreshold: 1}]";

#[test]
fn csi_checks_say_whether_a_plugin_is_ready() {
    let mut host = Host::builder().service("nfs", PLUGIN).start();
    host.wait_up("nfs");
    let plugin = check(&host, "nfs", "plugin");
    assert_eq!((&plugin["kind"], &plugin["state"]), (&"csi".into(), &"passing".into()), "{plugin}");
    assert_eq!(last_output(&plugin), "ready");

    for (says, means) in [
        ("no", "not ready yet"),
        ("9 no server is configured", "FAILED_PRECONDITION: no server is configured"),
    ] {
        fs::write(host.path("csi"), says).expect("the test's folder is writable");
        let message = format!("running, waits for check plugin: {means}");
        let waits = host.wait_for("nfs", means, |nfs| nfs.message == message);
        assert!(!waits.up && waits.healthy == Some(false) && waits.pid.is_some(), "{waits:?}");
        fs::write(host.path("csi"), "yes").expect("the test's folder is writable");
        host.wait_up("nfs");
    }

    // A socket that is gone, and a plugin that makes it again.
    fs::remove_file(host.path("csi.sock")).expect("it is there");
    host.wait_for("nfs", "to miss its socket", |nfs| nfs.message.ends_with("no such file or directory"));
    host.kill(host.pid_of("nfs"), libc::SIGKILL);
    host.wait_up("nfs");

    // After a re-exec it is asked again.
    host.ctl(&["reexec"]).ok();
    fs::write(host.path("csi"), "no").expect("the test's folder is writable");
    host.wait_for("nfs", "to be asked again", |nfs| nfs.healthy == Some(false));
    host.poweroff();
}

#[test]
fn who_asks_at_sockets_can_open_no_file() {
    let mut host = Host::builder().service("nfs", PLUGIN).start();
    host.wait_up("nfs");
    let probes = host.processes_with("kelson-probe");
    let [probe] = probes.as_slice() else { panic!("{probes:?}") };
    let status = fs::read_to_string(format!("/proc/{}/status", probe.outer_pid)).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(field("Uid").as_deref(), Some("65534 65534 65534 65534"));
    // CAP_DAC_OVERRIDE.
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(field(set).as_deref(), Some("0000000000000002"), "{set}");
    }
    assert_eq!((field("NoNewPrivs").as_deref(), field("Seccomp").as_deref()), (Some("1"), Some("2")));
    let socket = fs::metadata(host.path("csi.sock")).expect("it is there");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&socket) & 0o022, 0, "the socket is its owner's alone");

    host.ctl(&["stop", "nfs", "--wait"]).ok();
    let table = host.ctl(&["status", "nfs"]).ok().stdout;
    assert!(table.contains("plugin (csi): not asked now"), "{table}");
    eventually("the probe to end", || host.processes_with("kelson-probe").is_empty());
    host.poweroff();
}
