//! The keys that were found in a mapping.

use std::cell::RefCell;
use std::fmt::Display;

use crate::decode::{Decoder, MOST_MISTAKES};
use crate::tree::{Entry, Node, Position, Value};
use kelson_spec::near::near;

/// The most keys that a message lists beside the nearest one.
const MANY: usize = 16;

pub struct Seen<'f, 'n> {
    pub node: &'n Node,
    pub entries: &'n [Entry],
    /// The keys that may be there.
    pub known: &'f [&'static str],
    wrong: RefCell<Vec<&'static str>>,
}

impl<'f, 'n> Seen<'f, 'n> {
    /// Looks which of the keys `known` are there; reports `why` for the keys `elsewhere`, which are known but
    /// may not stand here.
    pub fn new(
        d: &mut Decoder<'_>,
        node: &'n Node,
        known: &'f [&'static str],
        (elsewhere, why): &(Vec<&str>, String),
    ) -> Option<Self> {
        for (key, entry) in d.entries(node)? {
            if known.contains(&key) {
                continue;
            }
            let all = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            let text = if elsewhere.contains(&key) {
                format!("{why}; allowed here: {all}")
            } else {
                // A file of nothing but mistakes is not worth the search.
                match near(key, known.iter().copied().filter(|_| d.diagnostics.len() < MOST_MISTAKES)) {
                    // The list of more keys takes several lines, and the nearest key is hard to find before it.
                    Some(near) if known.len() > MANY => {
                        format!("this key is not known; did you mean {near}?")
                    }
                    Some(near) => format!("this key is not known; did you mean {near}? Allowed here: {all}"),
                    None => format!("this key is not known; allowed here: {all}"),
                }
            };
            d.at_key(key.to_owned(), |d| d.wrong(entry.key.at, text));
        }
        let Value::Mapping(entries) = &node.value else { return None };
        Some(Seen { node, entries, known, wrong: RefCell::default() })
    }

    fn entry(&self, key: &str) -> Option<&'n Entry> {
        self.entries.iter().find(|entry| entry.key.is(key))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'n Node> {
        self.entry(key).map(|entry| &*entry.value)
    }

    /// Where the key itself stands.
    pub fn position(&self, key: &str) -> Position {
        self.entry(key).map_or(self.node.at, |entry| entry.key.at)
    }

    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// The key is there and its value has a mistake, which has been noted.
    pub fn is_wrong(&self, key: &str) -> bool {
        self.wrong.borrow().contains(&key)
    }

    /// The key is there, and its value without a mistake.
    pub fn is_right(&self, key: &str) -> bool {
        self.has(key) && !self.is_wrong(key)
    }

    /// Exactly one of `keys` must be there: which.
    pub fn one_of(&self, d: &mut Decoder<'_>, keys: &[&'static str]) -> Option<&'static str> {
        let present: Vec<&'static str> = keys.iter().copied().filter(|key| self.has(key)).collect();
        match present.as_slice() {
            [one] => Some(one),
            [] => d.refuse(self.node, format_args!("one of the keys {} is missing", keys.join(", "))),
            [first, second, ..] => {
                self.exclude(d, first, second, format_args!("{first} and {second}"));
                None
            }
        }
    }

    /// Notes that two keys exclude each other, at the later one.
    pub fn exclude(&self, d: &mut Decoder<'_>, one: &str, other: &str, both: impl Display) {
        let at = self.position(one).max(self.position(other));
        d.wrong(at, format_args!("{both} exclude each other; keep one"));
    }

    /// Reads the value of a key; `None` where it is absent or wrong. A key without a value is a mistake.
    pub fn read<T>(
        &self,
        d: &mut Decoder<'_>,
        key: &'static str,
        decode: impl FnOnce(&mut Decoder<'_>, &'n Node) -> Option<T>,
    ) -> Option<T> {
        let node = self.get(key)?;
        let value = d.at_key(key, |d| match node.value {
            Value::Null => d.refuse(node, "this key has no value; give it one or remove it"),
            _ => decode(d, node),
        });
        if value.is_none() {
            self.note_wrong(key);
        }
        value
    }

    // Compiled once, and not with the value of each key.
    #[inline(never)]
    fn note_wrong(&self, key: &'static str) {
        self.wrong.borrow_mut().push(key);
    }

    /// Notes a mistake of a key, at the key.
    pub fn wrong_key(&self, d: &mut Decoder<'_>, key: &'static str, message: impl Display) {
        d.at_key(key, |d| d.wrong(self.position(key), message));
    }

    /// Notes a mistake of a key, at its value.
    pub fn wrong_value(&self, d: &mut Decoder<'_>, key: &'static str, message: impl Display) {
        let node = self.get(key).unwrap_or(self.node);
        d.at_key(key, |d| d.wrong(node.at, message));
    }
}
