//! What may stand in the files, told as data: every key with its kind of value, its default and a sentence.
//!
//! Two things are made of it: the JSON schemas that editors use ([`json`]), and the tables of the documents ([`tables`]).
//! The decoder does not read it, so that PID 1's binary is free of it. Tests hold the two together: they ask the decoder at
//! every mapping what it allows, and lay each default, bound and word before it (tests/files/schema.rs).

mod checks;
mod confinement;
mod container;
mod group;
pub mod json;
mod kinds;
mod machine;
mod requirement;
mod service;
pub mod tables;

use std::ops::RangeInclusive;
use std::time::Duration;

pub use group::group;
pub use machine::machine;
pub use service::service;

/// All files, each named as its mapping is.
pub fn files() -> [Mapping; 3] {
    [service(), group(), machine()]
}

/// A mapping in which only these keys may stand.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// Of its definition in the schema and of its table in the documents.
    pub name: &'static str,
    pub keys: Vec<Key>,
    /// Exactly one of these keys must be there; empty where there is no such choice.
    pub one_of: &'static [&'static str],
}

impl Mapping {
    fn new(name: &'static str, keys: impl IntoIterator<Item = Key>) -> Self {
        Mapping { name, keys: keys.into_iter().collect(), one_of: &[] }
    }

    fn one_of(self, one_of: &'static [&'static str]) -> Self {
        Mapping { one_of, ..self }
    }

    /// The keys that have to be there in any case.
    pub fn required(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(|key| key.default == Absent::Mistake && !self.one_of.contains(&key.name))
    }
}

#[derive(Debug, Clone)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub default: Absent,
    /// Markdown; its links are those of the document that shows it.
    pub about: &'static str,
}

/// What it means that a key is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// The key must be there.
    Mistake,
    /// The same as this text of a file in its place.
    Is(&'static str),
    /// What no text of a file stands for, in words.
    Means(&'static str),
}

/// A key that must be there, or whose place another one may take.
fn needed(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, kind, default: Absent::Mistake, about }
}

/// A key that stands for `default` where it is absent.
fn with(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { name, kind, default: Absent::Is(default), about }
}

/// A key whose absence means something that cannot be written.
fn without(name: &'static str, kind: Kind, absent: &'static str, about: &'static str) -> Key {
    Key { name, kind, default: Absent::Means(absent), about }
}

/// What a value may be.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Any single value, as it is written.
    Text,
    Form(Form),
    Boolean,
    Number(RangeInclusive<u64>),
    Duration(RangeInclusive<Duration>),
    /// Bytes, at least so many.
    Size(u64),
    Cpus,
    Choice(Vec<&'static str>),
    /// So many values of a kind.
    List(Box<Kind>, RangeInclusive<usize>),
    /// Any keys of a form, each with a value of a kind.
    Map(Form, Box<Kind>),
    /// A function, since some hold themselves.
    Mapping(fn() -> Mapping),
    Either(Vec<Kind>),
}

/// A text of a certain form.
#[derive(Debug, Clone)]
pub struct Form {
    /// What it is called in the documents.
    pub name: &'static str,
    /// A regular expression that each such text matches; the decoder may ask for more.
    pub pattern: String,
    pub sample: &'static str,
}

impl Kind {
    /// As many as one likes.
    fn list(self) -> Kind {
        Kind::List(Box::new(self), 0..=usize::MAX)
    }

    /// From `least` to `most`.
    fn list_of(self, least: usize, most: usize) -> Kind {
        Kind::List(Box::new(self), least..=most)
    }
}
