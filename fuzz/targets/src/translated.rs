//! What a translation gives has to be a service file without a mistake.

use std::cell::OnceCell;

use kelson_import::Translation;
use kelson_load::{FileKind, Sources, load_file};

use crate::input;
use crate::place::{self, Place};

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

/// The texts of an input of several files, each with its name; the first without one is called `first`.
pub fn texts<'a>(data: &'a [u8], first: &'a str) -> Vec<(&'a str, String)> {
    let text = |(name, text)| (name, String::from_utf8_lossy(text).into_owned());
    input::files(data, first).into_iter().map(text).collect()
}

/// Each finding says something, and Kelson takes the file.
pub fn assert_sound(done: &Translation) {
    done.findings.iter().for_each(|finding| assert!(!finding.sentence.is_empty(), "{finding:?}"));
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
