//! Keys of the machine file on the kernel's command line: `kelson.machine.KEY=VALUE`.
//!
//! A dot leads into a mapping (`kelson.machine.health.minimum=5s`), and the value is YAML in one line
//! (`"kelson.machine.modules=[a, b]"`).

use std::fmt::Write as _;

use kelson_spec::applied::TreeFile;
use kelson_spec::names::MACHINE;
use kelson_sys::command_line;

use crate::SourceError;

const OURS: &str = "kelson.machine.";

/// A value, or a mapping in the order of the words.
enum Item {
    Value(String),
    Mapping(Vec<(String, Item)>),
}

/// The machine file that the words of a command line make. `None`: none of them is for it.
///
/// # Errors
/// A word that cannot be a key and its value.
pub fn file(line: &str) -> Result<Option<TreeFile>, SourceError> {
    let mut root = Vec::new();
    for word in command_line::split(line).iter().filter(|word| word.starts_with(OURS)) {
        put(&mut root, word).map_err(|what| SourceError::Word { word: word.clone(), what })?;
    }
    let mut text = String::new();
    write(&mut text, &root, 0);
    let file = TreeFile { name: MACHINE.to_owned(), content: text.into_bytes() };
    Ok((!root.is_empty()).then_some(file))
}

/// Of two words for one key, the later counts, as for the kernel itself.
fn put(root: &mut Vec<(String, Item)>, word: &str) -> Result<(), &'static str> {
    let pair = word.strip_prefix(OURS).and_then(|word| word.split_once('='));
    let (keys, value) = pair.ok_or("there is no value; write kelson.machine.KEY=VALUE")?;
    if value.trim().is_empty() || value.contains(char::is_control) {
        return Err("the value is empty or has a line break; write it as YAML in one line");
    }
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    if !keys.split('.').all(is_part) {
        return Err("a key is of letters, digits, _ and -; write others in the value: KEY={x.y: 1}");
    }
    let (outer, last) = keys.rsplit_once('.').unwrap_or(("", keys));
    let mut entries = root;
    for part in outer.split('.').filter(|part| !part.is_empty()) {
        let place = place_of(entries, part, || Item::Mapping(Vec::new()));
        let Some((_, Item::Mapping(inner))) = place else {
            return Err("another word gives a value to a part of this key; keep one of them");
        };
        entries = inner;
    }
    match place_of(entries, last, || Item::Value(String::new())) {
        Some((_, Item::Value(known))) => {
            value.clone_into(known);
            Ok(())
        }
        _ => Err("another word gives a value to a part of this key; keep one of them"),
    }
}

/// The entry of this key, which is made if it is not there.
fn place_of<'e>(
    entries: &'e mut Vec<(String, Item)>,
    key: &str,
    make: impl FnOnce() -> Item,
) -> Option<&'e mut (String, Item)> {
    if !entries.iter().any(|(known, _)| known == key) {
        entries.push((key.to_owned(), make()));
    }
    entries.iter_mut().find(|(known, _)| known == key)
}

// Writing into a String does not fail.
fn write(text: &mut String, entries: &[(String, Item)], indent: usize) {
    for (key, item) in entries {
        match item {
            Item::Value(value) => {
                let _ = writeln!(text, "{:indent$}{key}: {value}", "");
            }
            Item::Mapping(inner) => {
                let _ = writeln!(text, "{:indent$}{key}:", "");
                write(text, inner, indent.saturating_add(2));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> String {
        let file = file(line).unwrap().unwrap();
        assert_eq!(file.name, "machine.yaml");
        String::from_utf8(file.content).unwrap()
    }

    #[test]
    fn words_are_keys_of_the_machine_file() {
        assert_eq!(
            text(
                "ro kelson.machine.hostname=a kelson.machine.health.minimum=5s quiet \
                 \"kelson.machine.modules=[a, b]\" kelson.machine.health.deadline=1m kelson.machine.hostname=b kelson.rescue"
            ),
            "hostname: b\nhealth:\n  minimum: 5s\n  deadline: 1m\nmodules: [a, b]\n"
        );
        assert!(file("ro kelson.config=/x kelson.machine").unwrap().is_none());
    }

    #[test]
    fn a_word_that_makes_no_sense_is_named() {
        for (line, what) in [
            ("kelson.machine.hostname", "there is no value"),
            ("kelson.machine.hostname=", "the value is empty"),
            ("\"kelson.machine.hostname=a\nb\"", "the value is empty or has a line break"),
            ("kelson.machine.=a", "a key is of letters"),
            ("kelson.machine.a..b=c", "a key is of letters"),
            ("kelson.machine.a/b=c", "a key is of letters"),
            ("kelson.machine.a=1 kelson.machine.a.b=2", "another word gives a value to a part"),
            ("kelson.machine.a.b=1 kelson.machine.a=2", "another word gives a value to a part"),
        ] {
            let error = file(line).unwrap_err().to_string();
            assert!(error.starts_with("kelson.machine.") && error.contains(&format!(": {what}")), "{error}");
        }
    }
}
