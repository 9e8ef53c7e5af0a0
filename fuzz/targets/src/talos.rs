//! Files of Talos, and the service files that they become.

use std::path::Path;

use kelson_import::talos::{File, project};

use crate::translated::{assert_sound, texts};

/// Files, each after a line `=== NAME`.
pub fn files(data: &[u8]) {
    let texts = texts(data, "a.yaml");
    let files: Vec<File<'_>> = texts.iter().map(|(name, text)| File { name, text }).collect();
    let done = project(&files, Path::new("/etc/talos"));
    for file in done.files {
        assert!(file.path.starts_with("/etc/talos") && file.path.components().count() == 5, "{file:?}");
    }
    for (_, outcome) in done.services {
        match outcome {
            Ok(service) => assert_sound(&service),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
