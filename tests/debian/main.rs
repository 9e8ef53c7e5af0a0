//! Debian's own services: an ordinary Debian in QEMU, with the packages of `packages`. Minutes each.
//! The consoles stay in `out/test-logs`.

mod daemons;
mod reference;

use std::path::PathBuf;
use std::process::Command;

use kelson_tests::paths;
use serde::Deserialize;

/// What `kelsonctl import systemd -o json` tells of a unit.
#[derive(Debug, Deserialize)]
pub struct Imported {
    service: Option<String>,
    file: Option<String>,
    #[serde(default)]
    beside: Vec<Beside>,
    error: Option<String>,
    findings: Vec<Finding>,
}

/// A service file that a unit needs beside its own.
#[derive(Debug, Deserialize)]
pub struct Beside {
    service: String,
    file: String,
}

#[derive(Debug, Deserialize)]
pub struct Finding {
    key: String,
    fate: String,
}

impl Imported {
    /// The keys that are lost.
    pub fn lost(&self) -> Vec<String> {
        let lost = self.findings.iter().filter(|finding| finding.fate == "rejected");
        lost.map(|finding| finding.key.clone()).chain(self.error.clone()).collect()
    }

    /// The names and texts of the service files.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.service.as_deref().zip(self.file.as_deref());
        own.into_iter().chain(self.beside.iter().map(|one| (one.service.as_str(), one.file.as_str())))
    }
}

/// Translates a unit, with the units that are parts of it.
#[track_caller]
pub fn import(instance: Option<&str>, files: &[PathBuf]) -> Imported {
    let mut command = Command::new(paths::binary("kelsonctl"));
    // Only the host knows its name.
    command.args(["import", "systemd", "-o", "json", "--specifier", "H=kelson"]).args(files);
    command.args(instance.iter().flat_map(|instance| ["--instance", instance]));
    let done = command.output().expect("kelsonctl runs");
    let all: Vec<Imported> = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{files:?}: {error}: {}", String::from_utf8_lossy(&done.stderr)));
    all.into_iter().next().expect("a unit")
}

/// The list of packages for `hack/disk`.
pub fn packages() -> PathBuf {
    paths::top().join("tests/debian/packages")
}
