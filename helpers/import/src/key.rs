//! A row of the table of keys.

use crate::draft::Draft;
use crate::finding::{Fate, Outcome};
use crate::settings::Setting;

/// Reads the values of a key into the service.
pub type Read = fn(&mut Draft<'_>, &Setting) -> Outcome;

/// The values of a key that Kelson lacks with which nothing is lost.
#[derive(Debug, Clone, Copy)]
pub enum Neutral {
    /// Only none at all.
    Empty,
    /// `no`.
    No,
    /// These.
    Words(&'static [&'static str]),
}

/// One key of a section, and what becomes of it.
#[derive(Debug, Clone, Copy)]
pub struct Key<R = Read> {
    pub name: &'static str,
    /// Of most values.
    pub fate: Fate,
    /// What it becomes, or what the service loses and what to do. Markdown.
    pub sentence: &'static str,
    pub neutral: Neutral,
    pub read: Option<R>,
}

/// Asks for nothing that a service could miss: `why`.
pub const fn moot<R>(name: &'static str, why: &'static str) -> Key<R> {
    Key { name, fate: Fate::Kept, sentence: why, neutral: Neutral::Empty, read: None }
}

/// Has a counterpart, which `read` writes; it says so where a value has none.
pub const fn kept<R: Copy>(name: &'static str, read: R, becomes: &'static str) -> Key<R> {
    Key { name, fate: Fate::Kept, sentence: becomes, neutral: Neutral::Empty, read: Some(read) }
}

/// Has a counterpart that differs.
pub const fn nearly<R: Copy>(name: &'static str, read: R, becomes: &'static str) -> Key<R> {
    Key { name, fate: Fate::Approximated, sentence: becomes, neutral: Neutral::Empty, read: Some(read) }
}

/// Is lost, but for these values.
pub const fn lost<R>(name: &'static str, neutral: Neutral, loses: &'static str) -> Key<R> {
    Key { name, fate: Fate::Rejected, sentence: loses, neutral, read: None }
}

/// No key has two rows, and each row says something.
#[cfg(test)]
pub fn assert_sound<R>(title: &str, keys: &[Key<R>]) {
    let names: std::collections::BTreeSet<&str> = keys.iter().map(|key| key.name).collect();
    assert_eq!(names.len(), keys.len(), "{title}");
    for Key { name, sentence, .. } in keys {
        assert!(sentence.len() > 3 && !sentence.ends_with('.') && !sentence.contains('|'), "{name}");
    }
}
