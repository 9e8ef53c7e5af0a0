//! Compose files with what is hard in them, the service files that they become, and the finding about each key.
//!
//! Each folder of `tests/compose` has `compose.yaml`, perhaps variables in `env`, and `expected.txt`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use kelson_import::compose::{File, project};
use kelson_import::{Fate, Finding};

fn shown(finding: &Finding) -> String {
    let Finding { line, key, fate, sentence, .. } = finding;
    format!("# {line}: {key}: {}: {sentence}\n", fate.name())
}

fn read(text: &str, variables: &[(String, String)]) -> Result<kelson_import::compose::Project, String> {
    let file =
        File { name: "compose.yaml", text, folder: Path::new("/srv/shop"), project: "shop", variables };
    project(&file).map_err(|error| error.to_string())
}

/// What becomes of the file of a folder.
fn translated(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("compose.yaml")).unwrap();
    let variables = fs::read_to_string(folder.join("env")).unwrap_or_default();
    let (variables, mistakes) = kelson_load::environment_file(&variables);
    assert_eq!(mistakes, []);
    let done = match read(&text, &variables) {
        Ok(done) => done,
        Err(error) => return format!("error: {error}\n"),
    };
    let mut shows = String::new();
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("services")).unwrap();
    for service in &done.services {
        write!(shows, "# {}.yaml\n{}", service.name, service.file.file()).unwrap();
        // Each key that is kept says nothing.
        service.findings.iter().filter(|one| one.fate != Fate::Kept).for_each(|one| shows += &shown(one));
        shows.push('\n');
        // One that is neither named nor built is a mistake of the file.
        if !service.file.file().contains("image: \"\"") {
            let path = place.path().join(format!("services/{}.yaml", service.name));
            fs::write(path, service.file.file()).unwrap();
        }
    }
    done.findings.iter().filter(|one| one.fate != Fate::Kept).for_each(|one| shows += &shown(one));
    let loaded =
        kelson_load::load_with(place.path(), &kelson_load::Sources { root: None, ..Default::default() });
    let wrong: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    let known = |text: &&String| !text.contains("environment file");
    let wrong: Vec<&String> = wrong.iter().filter(known).collect();
    assert!(wrong.is_empty(), "{wrong:?}\n{shows}");
    shows
}

#[test]
fn every_file_becomes_what_is_written_beside_it() {
    let folders = super::listing(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compose"));
    assert_eq!(folders.len(), 3);
    for folder in folders {
        super::agrees(&folder, &translated(&folder));
    }
}

#[test]
fn a_file_that_cannot_be_read_says_where() {
    for (text, expected) in [
        ("", "compose.yaml: it has no mapping services"),
        ("services: []", "no mapping services"),
        ("services: {}", "no mapping services"),
        ("- a", "no mapping services"),
        ("services:\n  a: {image: $}\n", "compose.yaml:2: $ is no variable; write $$ for a single $"),
        (
            "services:\n  a: {image: '${TAG:?set it}'}\n",
            "compose.yaml:2: the file needs the variable TAG: set it",
        ),
        ("services:\n  a: [\n", "compose.yaml:"),
        ("services: {a: {image: b}}\n---\nx: y\n", "second document"),
    ] {
        let error = read(text, &[]).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn values_of_a_wrong_kind_are_never_lost_silently() {
    let names = kelson_import::compose::keys::SERVICE.keys.iter().map(|key| key.name);
    for name in names {
        for value in ["[[x]]", "{x: [y]}", "[{}]", "\"\"", "null", "-1", "[null]"] {
            let text = format!("services:\n  a:\n    image: b\n    {name}: {value}\n");
            if name == "image" {
                continue;
            }
            let done = read(&text, &[]).unwrap();
            assert_eq!(done.services.len(), 1, "{text}");
            assert!(done.services[0].findings.iter().any(|finding| finding.key == name), "{text}");
        }
    }
}
