//! Files of Talos with all keys that they have, the service files that they become, and the finding about each key.
//!
//! The files of each folder of `tests/talos` are read together; `expected.txt` has what they become.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use kelson_import::talos::{File, Project, project};
use kelson_import::{Fate, Finding};

fn shown(finding: &Finding) -> String {
    let Finding { file, line, key, fate, sentence, .. } = finding;
    format!("# {file}:{line}: {key}: {}: {sentence}\n", fate.name())
}

fn read(files: &[(String, String)]) -> Project {
    let files: Vec<File<'_>> = files.iter().map(|(name, text)| File { name, text }).collect();
    project(&files, Path::new("/etc/talos"))
}

/// What becomes of the files of a folder.
fn translated(folder: &Path) -> String {
    let files = super::listing(folder).into_iter().filter(|path| super::name(path).ends_with(".yaml"));
    let files: Vec<(String, String)> =
        files.map(|path| (super::name(&path), fs::read_to_string(path).unwrap())).collect();
    let done = read(&files);
    let mut shows = String::new();
    for (from, outcome) in &done.services {
        let service = match outcome {
            Ok(service) => service,
            Err(error) => {
                writeln!(shows, "# {from}: error: {error}").unwrap();
                continue;
            }
        };
        let text = service.file.file();
        let wrong: Vec<String> = super::mistakes(&service.name, &text)
            .into_iter()
            .filter(|mistake| !mistake.contains("environment file"))
            .collect();
        assert_eq!(wrong, [""; 0]);
        write!(shows, "# {}.yaml\n{text}", service.name).unwrap();
        // Each key that is kept says nothing.
        service.findings.iter().filter(|one| one.fate != Fate::Kept).for_each(|one| shows += &shown(one));
        shows.push('\n');
    }
    for file in &done.files {
        writeln!(shows, "# {}\n{}", file.path.display(), file.content).unwrap();
    }
    done.findings.iter().for_each(|one| shows += &shown(one));
    shows
}

#[test]
fn every_file_becomes_what_is_written_beside_it() {
    let folders = super::listing(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/talos"));
    assert_eq!(folders.len(), 4);
    for folder in folders {
        super::agrees(&folder, &translated(&folder));
    }
}

#[test]
fn what_talos_refuses_says_where() {
    let whole = "name: a\ncontainer: {entrypoint: /a}\nrestart: always\n";
    for (text, expected) in [
        (String::new(), "a.yaml: the file is empty"),
        ("---\n# nothing\n".to_owned(), "a.yaml: the file is empty"),
        ("- a".to_owned(), "a.yaml:1: this is no mapping"),
        ("name: [\n".to_owned(), "a.yaml:"),
        (format!("{whole}---\nname: b: c\n"), "a.yaml:5: "),
        (whole.replace("name: a", "name: A"), "a.yaml:1: the key name"),
        (whole.replace("name: a\n", ""), "a.yaml:1: the key name"),
        (whole.replace("/a", "\"\""), "a.yaml:2: the key container.entrypoint"),
        (whole.replace("/a", "../a"), "a.yaml:2: the key container.entrypoint"),
        (whole.replace("always", "sometimes"), "a.yaml:3: the key restart"),
        (whole.replace("restart: always\n", ""), "a.yaml:1: the key restart"),
        ("kind: ContainerConfig\nname: a\n".to_owned(), "a.yaml:1: the key image"),
    ] {
        let done = read(&[("a.yaml".to_owned(), text.clone())]);
        let errors: Vec<String> =
            done.services.into_iter().filter_map(|(_, outcome)| Some(outcome.err()?.to_string())).collect();
        assert!(matches!(errors.as_slice(), [one] if one.starts_with(expected)), "{text:?}: {errors:?}");
    }
}

#[test]
fn values_of_a_wrong_kind_are_never_lost_silently() {
    use kelson_import::talos::keys::{CONTAINER, CONTAINER_CONFIG, EXTENSION};
    let values = ["[[x]]", "{x: [y]}", "[{}]", "\"\"", "null", "-1", "[null]"];
    let needed = ["name", "restart", "image", "kind", "container", "entrypoint"];
    let extension = "name: a\ncontainer:\n  entrypoint: /a\nrestart: always\n";
    let container = "kind: ContainerConfig\nname: a\nimage: b\n";
    for (before, keys, after) in [
        ("", EXTENSION.keys, extension),
        ("name: a\nrestart: always\ncontainer:\n  entrypoint: /a\n  ", CONTAINER.keys, ""),
        ("", CONTAINER_CONFIG.keys, container),
    ] {
        for key in keys.iter().map(|key| key.name).filter(|key| !needed.contains(key)) {
            for value in values {
                let text = format!("{before}{key}: {value}\n{after}");
                let done = read(&[("a.yaml".to_owned(), text.clone())]);
                let service = done.services[0].1.as_ref().unwrap_or_else(|error| panic!("{text}: {error}"));
                assert!(service.findings.iter().any(|finding| finding.key.ends_with(key)), "{text}");
                assert_eq!(super::mistakes("a", &service.file.file()), [""; 0], "{text}");
            }
        }
    }
}
