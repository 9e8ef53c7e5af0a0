//! The remote door of a host: its machine file, with the keys that `hack/pki` made, and a client of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::authority::Authority;
use crate::ctl::Ctl;
use crate::host::Host;
use crate::paths;

/// The folder of the keys, and a machine file with the door at a free port of the loopback.
pub fn door() -> (PathBuf, String) {
    let made = Command::new(paths::top().join("hack/pki")).output().expect("hack/pki can be started");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let pki = paths::top().join("out/pki");
    let file = |name: &str| pki.join(name).display().to_string();
    let machine = format!(
        "api: {{listen: ['127.0.0.1:0'], ca: {}, certificate: {}, key: {}}}\n",
        file("ca.pem"),
        file("server.pem"),
        file("server.key")
    );
    (pki, machine)
}

/// The port of the door that was opened last.
#[track_caller]
pub fn port(host: &Host) -> u16 {
    const SAID: &str = "listening on 127.0.0.1:";
    let log = host.wait_log("apid", SAID);
    let last = log.rsplit(SAID).next().and_then(|rest| rest.lines().next());
    last.and_then(|port| port.trim().parse().ok()).unwrap_or_else(|| panic!("no port in {log}"))
}

/// `kelsonctl` through the door, as an administrator whose certificate of this CA holds for so long from now on.
#[track_caller]
pub fn client_for(host: &Host, authority: &Authority, valid: Duration) -> Ctl {
    let file = host.path(&format!("contexts-{}", valid.as_secs()));
    authority.contexts(port(host), valid, &file);
    Ctl::with_config(file)
}

/// Writes a file of contexts with an administrator's keys, for the door at this port.
#[track_caller]
pub fn contexts(port: u16, file: &Path) {
    let made = Command::new(paths::top().join("hack/pki"))
        .args(["--kelsonconfig", &port.to_string()])
        .arg(file)
        .status()
        .expect("hack/pki can be started");
    assert!(made.success(), "hack/pki --kelsonconfig failed");
}

/// `kelsonctl` through the door, as an administrator.
#[track_caller]
pub fn client(host: &Host) -> Ctl {
    let file = host.path("kelsonconfig");
    contexts(port(host), &file);
    Ctl::with_config(file)
}

/// `kelsonctl` as an administrator of several doors: a context of its name for each, in this file.
#[track_caller]
pub fn clients(doors: &[(&str, u16)], file: PathBuf) -> Ctl {
    let (pki, _) = door();
    let key = |name: &str| pki.join(name).display().to_string();
    let (ca, certificate, key) = (key("ca.pem"), key("client.pem"), key("client.key"));
    let mut text = "contexts:\n".to_owned();
    for (name, port) in doors {
        text.push_str(&format!(
            "  {name}: {{endpoint: '127.0.0.1:{port}', ca: {ca}, certificate: {certificate}, key: {key}}}\n"
        ));
    }
    std::fs::write(&file, text).expect("the test's folder is writable");
    Ctl::with_config(file)
}
