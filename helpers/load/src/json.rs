//! A value of a file: as JSON, and as the YAML that the decoder reads back.

use std::fmt::{self, Write as _};

use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// Mappings that take several lines where they stand in a file.
const BLOCKS: [&str; 4] = ["process", "container", "environment", "hooks"];

/// A JSON value whose keys keep their order. As text: YAML in one line.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(u64),
    /// One that may be negative.
    Integer(i64),
    Real(f64),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    pub fn text(text: &str) -> Json {
        Json::Text(text.to_owned())
    }

    pub fn texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Json {
        Json::List(texts.into_iter().map(Json::text).collect())
    }

    pub fn map<const N: usize>(entries: [(&str, Json); N]) -> Json {
        Json::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// Nothing, or without anything in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Json::Null => true,
            Json::List(list) => list.is_empty(),
            Json::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }

    /// A mapping as the text of a file; ends with a line break.
    pub fn file(&self) -> String {
        let mut text = String::new();
        if let Json::Map(entries) = self {
            block(&mut text, entries, 0);
        }
        text
    }
}

// Writing into a String does not fail, here and below.
fn block(text: &mut String, entries: &[(String, Json)], depth: usize) {
    let indent = depth.saturating_mul(2);
    let inner = indent.saturating_add(2);
    for (key, value) in entries {
        match value {
            Json::Map(entries) if BLOCKS.contains(&key.as_str()) => {
                let _ = writeln!(text, "{:indent$}{key}:", "");
                block(text, entries, depth.saturating_add(1));
            }
            Json::List(items) if items.iter().any(|item| matches!(item, Json::Map(_))) => {
                let _ = writeln!(text, "{:indent$}{key}:", "");
                for item in items {
                    let _ = writeln!(text, "{:inner$}- {item}", "");
                }
            }
            _ => {
                let _ = writeln!(text, "{:indent$}{key}: {value}", "");
            }
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => value.fmt(f),
            Json::Number(value) => value.fmt(f),
            Json::Integer(value) => value.fmt(f),
            Json::Real(value) => value.fmt(f),
            Json::Text(text) => f.write_str(&scalar(text)),
            Json::List(list) => {
                f.write_char('[')?;
                for (index, item) in list.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
                }
                f.write_char(']')
            }
            Json::Map(entries) => {
                f.write_char('{')?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{}: {value}", if index > 0 { ", " } else { "" }, scalar(key))?;
                }
                f.write_char('}')
            }
        }
    }
}

/// A text bare where YAML reads it back as it is, in a list too; else in double quotes.
fn scalar(text: &str) -> String {
    let bare = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/' || c == '_')
        && !text.ends_with(' ')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b" _-./@+=%".contains(&b))
        && !matches!(text, "null" | "Null" | "NULL");
    if bare {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            // Also the line breaks of Unicode and the byte order mark.
            letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(value) => serializer.serialize_u64(*value),
            Json::Integer(value) => serializer.serialize_i64(*value),
            Json::Real(value) => serializer.serialize_f64(*value),
            Json::Text(value) => serializer.serialize_str(value),
            Json::List(list) => serializer.collect_seq(list),
            Json::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}
