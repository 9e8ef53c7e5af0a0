//! The mistakes in the files, as the last reading found them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use kelson_spec::Diagnostic;

/// A file with mistakes.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultyFile {
    /// Sorted by their places.
    pub mistakes: Vec<Diagnostic>,
    /// A version of the file that was read earlier is in use.
    pub earlier_in_use: bool,
    /// When that version was read last, where that is known.
    pub earlier_read: Option<SystemTime>,
}

/// What the last reading found.
#[derive(Default)]
pub struct Mistakes {
    pub services: BTreeMap<String, Faulty>,
    /// Of the machine file, of groups, of whole folders.
    pub others: Vec<Diagnostic>,
    /// No reading found these: they are of the place where the host runs, and stay.
    pub host: Vec<Diagnostic>,
}

#[derive(Default)]
pub struct Faulty {
    pub mistakes: Vec<Diagnostic>,
    pub earlier_read: Option<SystemTime>,
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
    faults.into_iter().map(|(name, mistakes)| (name, joined(&mistakes))).collect()
}
