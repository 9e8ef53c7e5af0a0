//! Units of systemd, and the service files that they become.

use kelson_import::{PartUnit, Source, Unit, service_with};

use crate::translated::{assert_sound, texts};

/// A fragment, drop-ins, socket, timer and path units, each after a line `=== NAME`; the name of the first is that of the unit.
pub fn file(data: &[u8]) {
    let files = texts(data, "web.service");
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
    assert_sound(&done);
}
