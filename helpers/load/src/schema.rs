//! The grammar of the files as data: every key with its kind of value, its default and a sentence.
//!
//! Two things are made of it: the JSON schemas that editors use ([`json`]), and the tables of the documents ([`tables`]).
//! It is made of the same [`grammar`](crate::grammar) as the decoder. Tests ask the decoder at every mapping what it allows,
//! and lay each default, bound and word before it (tests/files/schema.rs).

pub mod json;
pub mod tables;

use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use crate::json::Json;
use kelson_spec::features::Feature;

/// A mapping in which only these keys may stand.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    /// Of its definition in the schema and of its table in the documents.
    pub name: &'static str,
    pub keys: Vec<Key>,
    /// Exactly one of these keys must be there; empty where there is no such choice.
    pub one_of: &'static [&'static str],
}

impl Mapping {
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
    /// The feature that a build of `init` needs for it.
    pub feature: Option<Feature>,
    /// Markdown; its links are those of the document that shows it.
    pub about: &'static str,
}

/// The meaning of an absent key.
#[derive(Debug, Clone, PartialEq)]
pub enum Absent {
    /// The key must be there.
    Mistake,
    /// The same as this value in its place.
    Is(Json),
    /// A meaning that no text of a file stands for, in words.
    Means(&'static str),
}

/// The kinds of values.
#[derive(Clone)]
pub enum Kind {
    /// Any single value, as it is written.
    Text,
    Form(Form),
    Boolean,
    /// `true` alone.
    True,
    Number(RangeInclusive<u64>),
    /// One that may be negative.
    Integer(RangeInclusive<i16>),
    Duration(RangeInclusive<Duration>),
    /// Bytes, at least this number.
    Size(u64),
    Cpus,
    Choice(Vec<&'static str>),
    /// So many values of a kind.
    List(Box<Kind>, RangeInclusive<usize>),
    /// Any keys of a form, each with a value of a kind, and keys that mean something else.
    Map(Form, Box<Kind>, Vec<Key>),
    /// A function, since some hold themselves.
    Mapping(Rc<dyn Fn() -> Mapping>),
    Either(Vec<Kind>),
}

/// A text of a certain form.
#[derive(Debug, Clone)]
pub struct Form {
    /// Its name in the documents.
    pub name: &'static str,
    /// A regular expression that each such text matches; the decoder may ask for more.
    pub pattern: String,
    pub sample: &'static str,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&tables::words(self))
    }
}

/// A value called `name`, which must match `pattern`, as `sample` does.
pub fn form(name: &'static str, pattern: &str, sample: &'static str) -> Form {
    Form { name, pattern: pattern.to_owned(), sample }
}
