//! The two processes of apid: what each may do, what becomes of the one when the other ends, and new files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject as _};

use super::world::{self, Echo};
use super::{Apid, VALID, metrics, version};

const USER: &str = "65432";

/// A line of `/proc/PID/status`.
fn status(pid: Pid, key: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.expect(key).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn open_to(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Until the process is gone, or a zombie.
async fn gone(pid: Pid) {
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    while lives() {
        assert!(tokio::time::Instant::now() < end, "{pid} goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn who_meets_strangers_is_nobody_and_has_no_rights() {
    assert!(nix::unistd::geteuid().is_root(), "this makes processes of other users: run it as root");
    let apid = Apid::open_with(&["--user", USER, "--group", "65431"]);
    world::serve(&apid.socket("init.sock"), Echo::new("init").machine());
    open_to(apid.folder.path(), 0o755);
    open_to(&apid.socket("init.sock"), 0o666);
    open_to(&apid.socket("key.pem"), 0o600);
    let worker = apid.worker();
    assert_eq!(status(worker, "Uid"), [USER; 4].join(" "));
    assert_eq!(status(worker, "Gid"), ["65431"; 4].join(" "));
    assert_eq!(status(worker, "Groups"), "");
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert_eq!(status(worker, set), "0000000000000000", "{set}");
    }
    // The files were read by the other one.
    assert_eq!(version(&apid.ann()).await.unwrap().version, "init");
}

#[tokio::test]
async fn each_ends_with_the_other() {
    for signal in [Signal::SIGKILL, Signal::SIGABRT] {
        let apid = Apid::open();
        kill(apid.worker(), signal).unwrap();
        assert_eq!(apid.ended().await, Some(1), "{signal}");
        let apid = Apid::open();
        let worker = apid.worker();
        kill(apid.key_holder(), signal).unwrap();
        gone(worker).await;
    }
}

#[tokio::test]
async fn one_that_hangs_is_begun_anew() {
    let mut apid = Apid::open();
    let worker = apid.worker();
    kill(worker, Signal::SIGSTOP).unwrap();
    assert!(apid.logged("the TLS worker has not answered").contains("restarts the service"));
    assert_eq!(apid.ended().await, Some(1));
    kill(worker, Signal::SIGKILL).unwrap();
}

/// The certificate that apid shows now.
async fn shown(apid: &Apid) -> CertificateDer<'static> {
    let stream = metrics::connect_as(apid, &apid.pki.client("ann", VALID), "h2").await;
    stream.get_ref().1.peer_certificates().unwrap()[0].clone()
}

#[tokio::test]
async fn certificates_are_read_again_when_they_change() {
    let mut apid = Apid::served();
    let ann = apid.ann();
    assert_eq!(version(&ann).await.unwrap().version, "init");
    let before = shown(&apid).await;
    let (certificate, key) = apid.pki.issue("edge-1", None, &["127.0.0.1"], VALID);
    // The one is there before the other: apid goes on with the previous ones.
    std::fs::write(apid.socket("certificate.pem"), &certificate).unwrap();
    assert!(apid.logged("is not that of the certificate").contains("the previous files stay in use"));
    assert_eq!(shown(&apid).await, before);
    std::fs::write(apid.socket("key.pem"), key).unwrap();
    apid.logged("certificate files have changed");
    assert_eq!(shown(&apid).await, CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap());
    // Existing connections stay.
    assert_eq!(version(&ann).await.unwrap().version, "init");
    std::fs::remove_file(apid.socket("ca.pem")).unwrap();
    apid.logged("cannot read the CA");
    assert_eq!(version(&apid.ann()).await.unwrap().version, "init");
}
