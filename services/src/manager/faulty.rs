//! The mistakes in the files, as the last reading found them.

use kelson_sys::ordered;
use std::collections::BTreeMap;
use std::time::SystemTime;

use kelson_proto::v1;
use kelson_spec::Diagnostic;

/// The findings of the last reading.
#[derive(Default)]
pub struct Mistakes {
    pub services: BTreeMap<String, Faulty>,
    /// Of the machine file, of groups, of whole folders.
    pub others: Vec<Diagnostic>,
    /// No reading found these: they are of the place where the host runs, and stay.
    pub host: Vec<Diagnostic>,
}

/// The file of a service with mistakes.
#[derive(Default)]
pub struct Faulty {
    /// Sorted by their places.
    pub mistakes: Vec<Diagnostic>,
    /// When the version was read last that was read before, where that is known.
    pub earlier_read: Option<SystemTime>,
}

/// A file with mistakes, in the form of the API.
pub fn faulty_file(
    mistakes: &[Diagnostic],
    earlier_in_use: bool,
    read: Option<SystemTime>,
) -> v1::FaultyFile {
    let mistakes = mistakes.iter().map(|mistake| v1::FileMistake {
        file: mistake.file.display().to_string(),
        line: mistake.line,
        column: mistake.column,
        message: mistake.message.clone(),
    });
    v1::FaultyFile { mistakes: mistakes.collect(), earlier_in_use, earlier_read: read.map(Into::into) }
}

pub fn joined(mistakes: &[Diagnostic]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The mistakes of each faulty service, as one text.
pub fn faults(diagnostics: &[Diagnostic]) -> BTreeMap<String, String> {
    let mut faults: BTreeMap<String, Vec<Diagnostic>> = BTreeMap::new();
    for diagnostic in diagnostics {
        if let Some(name) = &diagnostic.service {
            faults.entry(name.clone()).or_default().push(diagnostic.clone());
        }
    }
    ordered::map(faults.into_iter().map(|(name, mistakes)| (name, joined(&mistakes))))
}
