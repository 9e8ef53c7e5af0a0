//! Small units with what is hard in them, the service files that they become, and what is said of each key.
//!
//! Each folder of `tests/golden` has a unit, perhaps a folder of drop-ins beside it, a file `instance`, and `expected.txt`.
//! `KELSON_BLESS=1` writes down what comes now.

#![allow(clippy::unwrap_used)]

mod compose;
mod talos;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use kelson_import::{PartUnit, Source, Unit, service, service_with};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn listing(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// What becomes of the unit of a folder.
fn translated(folder: &Path) -> String {
    let unit =
        listing(folder).into_iter().find(|path| path.is_file() && name(path).ends_with(".service")).unwrap();
    let drop_ins = listing(&folder.join(format!("{}.d", name(&unit))));
    let files: Vec<(String, String)> = std::iter::once(unit.clone())
        .chain(drop_ins)
        .map(|path| (name(&path), fs::read_to_string(path).unwrap()))
        .collect();
    let instance = fs::read_to_string(folder.join("instance")).ok();
    let unit = Unit {
        name: &name(&unit),
        instance: instance.as_deref().map(str::trim),
        sources: files.iter().map(|(name, text)| Source { name, text }).collect(),
        specifiers: vec![('H', "edge-1".to_owned())],
    };
    let parts: Vec<(String, String)> = listing(folder)
        .into_iter()
        .filter(|path| PartUnit::is(&name(path)))
        .map(|path| (name(&path), fs::read_to_string(path).unwrap()))
        .collect();
    let parts: Vec<PartUnit<'_>> =
        parts.iter().map(|(name, text)| PartUnit { name, sources: vec![Source { name, text }] }).collect();
    let done = match service_with(&unit, &parts) {
        Ok(done) => done,
        Err(error) => return format!("error: {error}\n"),
    };
    let mut text = String::new();
    for (name, file) in done.files() {
        let file = file.file();
        assert_eq!(mistakes(name, &file), [""; 0], "{}", folder.display());
        if !text.is_empty() {
            writeln!(text, "--- # {name}.yaml").unwrap();
        }
        text += &file;
    }
    for finding in &done.findings {
        let section =
            if finding.section.is_empty() { String::new() } else { format!("[{}] ", finding.section) };
        let place = format!("{}:{}: {section}{}", finding.file, finding.line, finding.key);
        writeln!(text, "# {place}: {}: {}", finding.fate.name(), finding.sentence).unwrap();
    }
    text
}

/// What `kelsonctl validate` says of the service file.
fn mistakes(name: &str, text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{name}.yaml"));
    fs::write(&path, text).unwrap();
    let loaded = kelson_load::load_file(&path, &kelson_load::Sources { root: None, ..Default::default() });
    loaded.diagnostics.into_iter().map(|mistake| format!("{mistake}\n{text}")).collect()
}

/// `expected.txt` of a folder has this text, or gets it.
fn agrees(folder: &Path, now: &str) {
    let path = folder.join("expected.txt");
    if std::env::var_os("KELSON_BLESS").is_some() {
        fs::write(&path, now).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(now, expected, "{}", path.display());
}

#[test]
fn every_unit_becomes_what_is_written_beside_it() {
    let folders: Vec<PathBuf> = listing(&golden()).into_iter().filter(|path| path.is_dir()).collect();
    assert!(folders.len() >= 8, "{folders:?}");
    for folder in folders {
        agrees(&folder, &translated(&folder));
    }
}

fn alone(name: &str, instance: Option<&str>, text: &str) -> Result<kelson_import::Translation, String> {
    let sources = vec![Source { name, text }];
    service(&Unit { name, instance, sources, specifiers: Vec::new() }).map_err(|error| error.to_string())
}

#[test]
fn what_is_no_service_is_an_error() {
    let whole = "[Service]\nExecStart=/bin/a\n";
    for (name, instance, text, told) in [
        ("a.socket", None, whole, "ends in .service"),
        ("a@.service", None, whole, "--instance"),
        ("a.service", Some("b"), whole, "is no template"),
        ("a.service", None, "", "masks the unit"),
        ("a.service", None, "[Service]\nType=oneshot\n", "runs no program"),
        ("a.service", None, "[Service]\nExecStart=bin/a\n", "neither a path"),
        ("a.service", None, "[Service]\nExecStart=/bin/a 'b\n", "a quote has no end"),
        ("a.service", None, "[Service]\nExecStart=/bin/a\nExecStart=\n", "runs no program"),
    ] {
        let error = alone(name, instance, text).unwrap_err();
        assert!(error.contains(told), "{name}: {error}");
    }
    let default = format!("{whole}[Install]\nDefaultInstance=b\n");
    assert_eq!(alone("a@.service", None, &default).unwrap().name, "a-b");
}

#[test]
fn every_key_of_a_unit_has_one_finding() {
    let text = "[Unit]\nDescription=a\nAfter=a\nAfter=b\nNonsense=1\n[Service]\nExecStart=/bin/a\nUser=a\nUser=b\n\
                [Nowhere]\nA=b\n[X-Mine]\nA=b\n";
    let done = alone("a.service", None, text).unwrap();
    let keys: Vec<&str> = done.findings.iter().map(|finding| finding.key.as_str()).collect();
    assert_eq!(keys, ["Description", "After", "Nonsense", "ExecStart", "User", "A", "A"]);
}
