//! `explain`: what the keys of a file are for, as the documents tell it.

use kelson_load::files;
use kelson_load::schema::{Absent, Key, Kind, Mapping, tables};

use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::{Page, Table, nearest, or_dash, views};

/// Explain the keys of a service, group, machine or volume file
///
/// A dot separates a key from the keys within it. A table cuts long texts to the
/// width of the terminal; JSON has them whole.
///
/// Examples:
///   kelsonctl explain service
///   kelsonctl explain service.health.interval
///   kelsonctl explain machine -o json | jq -r '.[].key'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// A file, or a key in it: service, service.restart.policy
    #[arg(value_name = "FILE[.KEY]")]
    path: String,
}

/// A key, by its whole path.
#[derive(Debug)]
struct Explained {
    key: String,
    value: String,
    default: Option<String>,
    about: String,
}

views! {
    // `default`: null where the key must be there.
    Explained: explained { key, value, default, about }
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let keys = explain(&self.path)?;
        call.show(&keys, || {
            let table = Table::of(&keys).left("KEY", |key| &key.key).cut("VALUE", |key| &key.value);
            let table = table.cut("DEFAULT", |key| or_dash(key.default.as_deref()));
            Page::Table(table.cut("WHAT", |key| &key.about).into())
        })
    }
}

/// The key of this path, and those that it holds.
fn explain(path: &str) -> Result<Vec<Explained>, Failure> {
    let mut words = path.split('.');
    let mut place = words.next().unwrap_or_default().to_owned();
    let mut keys = match place.as_str() {
        "service" => files::service().keys,
        "group" => files::group().keys,
        "machine" => files::machine().keys,
        "volume" => files::volume().keys,
        _ => {
            return Err(Failure::Usage(format!(
                "{place:?} is no file; there are service, group, machine and volume"
            )));
        }
    };
    let mut own = None;
    for word in words {
        let Some(key) = keys.iter().find(|key| key.name == word) else {
            let near = nearest(word, keys.iter().map(|key| key.name));
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            return Err(Failure::Usage(format!("{place} has no key {word:?}{near}")));
        };
        place = format!("{place}.{word}");
        own = Some(explained(place.clone(), key));
        let named = if let Kind::Map(_, _, own) = &key.kind { own.clone() } else { Vec::new() };
        keys = within(&key.kind).into_iter().flat_map(|mapping| mapping.keys).chain(named).collect();
    }
    let inner = keys.iter().map(|key| explained(format!("{place}.{}", key.name), key));
    Ok(own.into_iter().chain(inner).collect())
}

/// The mappings that a value may be, or hold.
fn within(kind: &Kind) -> Vec<Mapping> {
    match kind {
        Kind::Mapping(mapping) => vec![mapping()],
        Kind::List(of, _) | Kind::Map(_, of, _) => within(of),
        Kind::Either(kinds) => kinds.iter().flat_map(within).collect(),
        _ => Vec::new(),
    }
}

fn explained(path: String, key: &Key) -> Explained {
    let default = match &key.default {
        Absent::Mistake => None,
        Absent::Is(value) if value.is_empty() => Some("none".to_owned()),
        Absent::Is(value) => Some(value.to_string()),
        Absent::Means(words) => Some(plain(words)),
    };
    Explained { key: path, value: plain(&tables::words(&key.kind)), default, about: plain(key.about) }
}

/// Markdown as it is read: without marks of code, and `[text](place)` is `text`.
fn plain(markdown: &str) -> String {
    let mut parts = markdown.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let joined = parts.fold(first, |mut text, part| {
        if let Some(open) = text.rfind('[') {
            text.remove(open);
        }
        text + part.split_once(')').map_or(part, |(_, rest)| rest)
    });
    joined.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_file_is_explained() {
        for file in ["service", "group", "machine"] {
            let mut paths = vec![file.to_owned()];
            while let Some(path) = paths.pop() {
                for key in explain(&path).unwrap() {
                    assert!(!key.about.is_empty() && !key.value.is_empty(), "{key:?}");
                    assert!(!key.about.contains("]("), "{key:?}");
                    // Some hold themselves.
                    let is_inner = key.key.len() > path.len() && key.key.matches('.').count() < 5;
                    paths.extend(is_inner.then_some(key.key));
                }
            }
        }
    }

    #[test]
    fn a_path_that_is_none_is_told() {
        for (path, said) in [
            ("disk", "\"disk\" is no file; there are service, group, machine and volume"),
            ("service.helth", "service has no key \"helth\"; did you mean health?"),
            ("service.name.x", "service.name has no key \"x\""),
        ] {
            assert_eq!(explain(path).unwrap_err(), Failure::Usage(said.to_owned()));
        }
        assert_eq!(plain("see [`stop`](#stop), then `x`"), "see stop, then x");
    }
}
