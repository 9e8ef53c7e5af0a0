//! Where each value of a configuration comes from: the configuration folder, or a source that overrides it.

use kelson_spec::applied::TreeFile;
use kelson_spec::names::MACHINE;
use kelson_spec::sources::FOLDER;

use crate::Json;
use crate::parser;
use crate::tree::{Node, Value};

/// A key of the machine file, or the file of a service or a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// Such as `hostname`, or `services/web.yaml`.
    pub name: String,
    /// Of a key.
    pub value: Option<Json>,
    /// The name of the source; `None`: the configuration folder itself.
    pub source: Option<String>,
    /// The file within that.
    pub file: String,
    /// Of a key, counted from 1.
    pub line: Option<u32>,
}

/// What is in force of these files, in the order of its names: keys first, in the order in which they appear. Files of the
/// sources stand behind the others, as `sources/SOURCE/NAME`.
pub fn origins(files: &[TreeFile]) -> Vec<Origin> {
    let files = files.to_vec();
    let found = parser::guarded(move || {
        let mut found: Vec<Origin> = Vec::new();
        for file in &files {
            of_file(file).into_iter().for_each(|origin| put(&mut found, origin));
        }
        found
    });
    let (keys, mut others): (Vec<Origin>, Vec<Origin>) =
        found.into_iter().partition(|origin| origin.value.is_some());
    others.sort_by(|one, other| one.name.cmp(&other.name));
    keys.into_iter().chain(others).collect()
}

/// The later one of a name replaces the earlier.
fn put(found: &mut Vec<Origin>, origin: Origin) {
    match found.iter_mut().find(|known| known.name == origin.name) {
        Some(known) => *known = origin,
        None => found.push(origin),
    }
}

fn of_file(file: &TreeFile) -> Vec<Origin> {
    let layer = file.name.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/')?.split_once('/'));
    let (source, name) = layer.map_or((None, file.name.as_str()), |(source, name)| (Some(source), name));
    let origin = |key: &str, value, line| Origin {
        name: key.to_owned(),
        value,
        source: source.map(str::to_owned),
        file: name.to_owned(),
        line,
    };
    if name != MACHINE {
        return vec![origin(name, None, None)];
    }
    let text = String::from_utf8_lossy(&file.content);
    let root = parser::parse(&text).and_then(|(root, _)| root);
    let Some(Value::Mapping(entries)) = root.as_deref().map(|root| &root.value) else { return Vec::new() };
    let key = |entry: &crate::tree::Entry| {
        let line = entry.key.at.line;
        entry.key.scalar().map(|key| origin(key, Some(json(&entry.value)), Some(line)))
    };
    entries.iter().filter_map(key).collect()
}

fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Scalar(text) => Json::text(text),
        Value::Sequence(items) => Json::List(items.iter().map(|item| json(item)).collect()),
        Value::Mapping(entries) => {
            let entry =
                |entry: &crate::tree::Entry| Some((entry.key.scalar()?.to_owned(), json(&entry.value)));
            Json::Map(entries.iter().filter_map(entry).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<TreeFile> = files
            .iter()
            .map(|(name, text)| TreeFile { name: (*name).to_owned(), content: text.as_bytes().to_vec() })
            .collect();
        let text = |origin: Origin| {
            let Origin { name, value, source, file, line } = origin;
            let value = value.map(|value| value.to_string()).unwrap_or_default();
            format!("{name}|{value}|{}|{file}|{}", source.unwrap_or_default(), line.unwrap_or_default())
        };
        origins(&files).into_iter().map(text).collect()
    }

    #[test]
    fn each_value_has_the_origin_of_the_last_source_that_gave_it() {
        assert_eq!(
            shown(&[
                ("groups/shop.yaml", ""),
                ("machine.yaml", "hostname: image\nmodules: [a, \"b: c\"]\n"),
                ("services/web.yaml", "name: web\n"),
                ("sources/disk/machine.yaml", "\n\nhealth: {minimum: 5s}\nhostname: disk\n"),
                ("sources/disk/services/web.yaml", ""),
                ("sources/commandLine/machine.yaml", "hostname: line\n"),
            ]),
            [
                "hostname|line|commandLine|machine.yaml|1",
                "modules|[a, \"b: c\"]||machine.yaml|2",
                "health|{minimum: 5s}|disk|machine.yaml|3",
                "groups/shop.yaml|||groups/shop.yaml|0",
                "services/web.yaml||disk|services/web.yaml|0",
            ]
        );
        assert_eq!(shown(&[("machine.yaml", "a: [")]), Vec::<String>::new());
    }
}
