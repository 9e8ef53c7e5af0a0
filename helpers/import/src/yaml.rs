//! A value of a YAML file: with the values of its variables, and with what `<<` takes from elsewhere.

use std::convert::Infallible;

use kelson_load::tree::{Node, Value as Content};

#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Counted from 1.
    pub line: u32,
    pub content: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Null,
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

/// A value that could not be read, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable<E> {
    pub line: u32,
    pub why: E,
}

impl Value {
    /// Of a part of a file without variables.
    pub fn plain(node: &Node) -> Value {
        match Value::new(node, &mut |text| Ok::<String, Infallible>(text.to_owned())) {
            Ok(value) => value,
            Err(unreadable) => match unreadable.why {},
        }
    }

    /// Of a part of the file; `replaced` gives each text the values of its variables.
    ///
    /// # Errors
    /// Where a variable cannot be replaced.
    pub fn new<E>(
        node: &Node,
        replaced: &mut dyn FnMut(&str) -> Result<String, E>,
    ) -> Result<Value, Unreadable<E>> {
        let line = node.at.line;
        let content = match &node.value {
            Content::Null => Kind::Null,
            Content::Scalar(text) => Kind::Text(replaced(text).map_err(|why| Unreadable { line, why })?),
            Content::Sequence(items) => {
                Kind::List(items.iter().map(|item| Value::new(item, replaced)).collect::<Result<_, _>>()?)
            }
            Content::Mapping(entries) => {
                let (mut own, mut merged): (Vec<(String, Value)>, Vec<Value>) = Default::default();
                for entry in entries {
                    // Docker replaces variables in values alone.
                    let key = entry.key.scalar().unwrap_or_default();
                    let value = Value::new(&entry.value, replaced)?;
                    if key == "<<" {
                        merged.push(value);
                    } else {
                        own.push((key.to_owned(), value));
                    }
                }
                merged.into_iter().for_each(|value| merge(&mut own, value));
                Kind::Map(own)
            }
        };
        Ok(Value { line, content })
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Of a mapping; empty where it is none.
    pub fn entries(&self) -> &[(String, Value)] {
        if let Kind::Map(entries) = &self.content { entries } else { &[] }
    }

    /// Of a list; empty where it is none.
    pub fn items(&self) -> &[Value] {
        if let Kind::List(items) = &self.content { items } else { &[] }
    }

    /// A single value; empty for none.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Kind::Text(text) => Some(text),
            Kind::Null => Some(""),
            _ => None,
        }
    }

    /// A list of single values, or one of them.
    pub fn texts(&self) -> Option<Vec<&str>> {
        match &self.content {
            Kind::Null => Some(Vec::new()),
            Kind::Text(text) => Some(vec![text]),
            Kind::List(items) => items.iter().map(Value::text).collect(),
            Kind::Map(_) => None,
        }
    }

    /// Names with values, as a mapping or as a list of `NAME=VALUE`; `None` as a value: none is there.
    pub fn pairs(&self) -> Option<Vec<(&str, Option<&str>)>> {
        match &self.content {
            Kind::Null => Some(Vec::new()),
            Kind::Map(entries) => entries
                .iter()
                .map(|(name, value)| match &value.content {
                    Kind::Null => Some((name.as_str(), None)),
                    _ => value.text().map(|text| (name.as_str(), Some(text))),
                })
                .collect(),
            Kind::List(items) => items
                .iter()
                .map(|item| {
                    let text = item.text()?;
                    Some(text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value))))
                })
                .collect(),
            Kind::Text(_) => None,
        }
    }

    pub fn is_true(&self) -> bool {
        self.text() == Some("true")
    }

    pub fn is_empty(&self) -> bool {
        match &self.content {
            Kind::Null => true,
            Kind::Text(text) => text.is_empty(),
            Kind::List(items) => items.is_empty(),
            Kind::Map(entries) => entries.is_empty(),
        }
    }
}

/// Adds what `<<` names, of which the keys that are there already count for nothing.
fn merge(own: &mut Vec<(String, Value)>, from: Value) {
    match from.content {
        Kind::Map(entries) => {
            for (key, value) in entries {
                if !own.iter().any(|(known, _)| *known == key) {
                    own.push((key, value));
                }
            }
        }
        Kind::List(items) => items.into_iter().for_each(|item| merge(own, item)),
        Kind::Null | Kind::Text(_) => {}
    }
}
