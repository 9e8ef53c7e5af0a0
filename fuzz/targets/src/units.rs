//! Units of systemd, and the service files that they become.

use std::cell::OnceCell;

use kelson_import::{PartUnit, Source, Unit, service_with};
use kelson_load::{FileKind, Sources, load_file};

use crate::input;
use crate::place::{self, Place};

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

/// A fragment, drop-ins, socket, timer and path units, each after a line `=== NAME`; the name of the first is that of the unit.
pub fn file(data: &[u8]) {
    let files: Vec<(&str, String)> = input::files(data, "web.service")
        .into_iter()
        .map(|(name, text)| (name, String::from_utf8_lossy(text).into_owned()))
        .collect();
    let name = files.first().map_or("web.service", |(name, _)| *name);
    let all = || files.iter().map(|(name, text)| Source { name, text });
    let sources = all().filter(|source| !PartUnit::is(source.name)).collect();
    let parts = all().filter(|source| PartUnit::is(source.name));
    let parts: Vec<PartUnit<'_>> =
        parts.map(|source| PartUnit { name: source.name, sources: vec![source] }).collect();
    let instance = name.ends_with("@.service").then_some("a/b-c");
    let unit = Unit { name, instance, sources, specifiers: vec![('H', "edge".to_owned())] };
    let done = match service_with(&unit, &parts) {
        Ok(done) => done,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for finding in &done.findings {
        assert!(!finding.sentence.is_empty(), "{finding:?}");
    }
    let text = done.file.file();
    let loaded = place::with(&FOLDER, |folder| {
        let path = folder.write(&format!("{}.yaml", done.name), text.as_bytes());
        // Users and files of environments are those of a host.
        let loaded = load_file(&path, &Sources { root: None, ..Sources::default() });
        let _ = std::fs::remove_file(path);
        loaded
    });
    assert_eq!((loaded.kind, loaded.diagnostics), (FileKind::Service, Vec::new()), "{text}");
}
