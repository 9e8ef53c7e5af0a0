//! Files of Talos, and the service files that they become.

use std::cell::OnceCell;
use std::path::Path;

use kelson_import::talos::{File, project};
use kelson_load::{FileKind, Sources, load_file};

use crate::input;
use crate::place::{self, Place};

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

/// Files, each after a line `=== NAME`.
pub fn files(data: &[u8]) {
    let texts: Vec<(&str, String)> = input::files(data, "a.yaml")
        .into_iter()
        .map(|(name, text)| (name, String::from_utf8_lossy(text).into_owned()))
        .collect();
    let files: Vec<File<'_>> = texts.iter().map(|(name, text)| File { name, text }).collect();
    let done = project(&files, Path::new("/etc/talos"));
    for file in done.files {
        assert!(file.path.starts_with("/etc/talos") && file.path.components().count() == 5, "{file:?}");
    }
    for (_, outcome) in done.services {
        let service = match outcome {
            Ok(service) => service,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        service.findings.iter().for_each(|finding| assert!(!finding.sentence.is_empty(), "{finding:?}"));
        let text = service.file.file();
        let loaded = place::with(&FOLDER, |folder| {
            let path = folder.write(&format!("{}.yaml", service.name), text.as_bytes());
            // Users and files of environments are those of a host.
            let loaded = load_file(&path, &Sources { root: None, ..Sources::default() });
            let _ = std::fs::remove_file(path);
            loaded
        });
        assert_eq!((loaded.kind, loaded.diagnostics), (FileKind::Service, Vec::new()), "{text}");
    }
}
