//! Environments: which names are allowed, and the files of `KEY=VALUE` lines that a service names.

use std::collections::HashMap;

use kelson_spec::quote::{quoted, shown};

/// Why a name cannot be in a service's environment, if it cannot.
pub fn name_mistake(name: &str) -> Option<String> {
    let mut bytes = name.bytes();
    let sound = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !sound {
        return Some(format!(
            "{} is not a name for the environment; use letters, digits and _, no digit first",
            quoted(name)
        ));
    }
    (name == "KELSON_RUN").then(|| "KELSON_RUN is set by Kelson itself; use another name".to_owned())
}

/// Each name once, where it came first, with the value that came last.
pub fn unique(entries: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut list: Vec<(String, String)> = Vec::new();
    for (name, value) in entries {
        match places.get(&name).and_then(|place| list.get_mut(*place)) {
            Some((_, old)) => *old = value,
            None => {
                places.insert(name.clone(), list.len());
                list.push((name, value));
            }
        }
    }
    list
}

/// A mistake in an environment file: line and column counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct LineMistake {
    pub line: u32,
    pub column: u32,
    pub message: String,
}

/// Reads the lines of an environment file: `KEY=VALUE`, empty lines, comments (`#` first). A value may stand in single
/// or double quotes, which keep spaces at its ends; in double quotes `\"` and `\\` stand for `"` and `\`. Nothing is expanded.
/// A name that stands twice is given twice.
pub fn parse(content: &str) -> (Vec<(String, String)>, Vec<LineMistake>) {
    let mut found = Vec::new();
    let mut mistakes = Vec::new();
    for (number, line) in content.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let indent = line.chars().take_while(|c| c.is_whitespace()).count();
        let mut wrong = |column: usize, message: String| {
            let one_more = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
            mistakes.push(LineMistake { line: one_more(number), column: one_more(column), message });
        };
        let Some((name, value)) = trimmed.split_once('=') else {
            wrong(indent, "there is no = in this line; write KEY=VALUE, or # before a comment".to_owned());
            continue;
        };
        if let Some(message) = name_mistake(name) {
            wrong(indent, message);
            continue;
        }
        let at = indent.saturating_add(name.chars().count()).saturating_add(1);
        match unquote(value) {
            Ok(value) if value.contains('\0') => {
                wrong(at, format!("the value of {} holds a NUL byte", shown(name)));
            }
            Ok(value) => found.push((name.to_owned(), value)),
            Err(message) => wrong(at, message.to_owned()),
        }
    }
    (found, mistakes)
}

fn unquote(value: &str) -> Result<String, &'static str> {
    let value = value.trim_start();
    if let Some(rest) = value.strip_prefix('\'') {
        return match rest.split_once('\'') {
            Some((inner, "")) => Ok(inner.to_owned()),
            Some(_) => Err("something stands after the closing quote"),
            None => Err("the closing quote ' is missing in this line"),
        };
    }
    let Some(rest) = value.strip_prefix('"') else { return Ok(value.to_owned()) };
    let mut text = String::new();
    let mut letters = rest.chars();
    loop {
        match letters.next() {
            Some('"') if letters.as_str().is_empty() => return Ok(text),
            Some('"') => return Err("something stands after the closing quote"),
            Some('\\') => match letters.next() {
                Some(escaped @ ('"' | '\\')) => text.push(escaped),
                Some(other) => text.extend(['\\', other]),
                None => return Err("the closing quote \" is missing in this line"),
            },
            Some(letter) => text.push(letter),
            None => return Err("the closing quote \" is missing in this line"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines() {
        let content = "# comment\n\nA=1\n  B = 2\nC= two words \nD=\"  kept \\\" \\\\ \\n \"\nE='$HOME \"x\"'\nF=\nA=again\n_x9=a=b#c\n";
        let (found, mistakes) = parse(content);
        let found = unique(found);
        let expected = [
            ("A", "again"),
            ("C", "two words"),
            ("D", "  kept \" \\ \\n "),
            ("E", "$HOME \"x\""),
            ("F", ""),
            ("_x9", "a=b#c"),
        ];
        let found: Vec<(&str, &str)> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(found, expected);
        assert_eq!(
            mistakes,
            [LineMistake {
                line: 4,
                column: 3,
                message:
                    "\"B \" is not a name for the environment; use letters, digits and _, no digit first"
                        .into()
            }]
        );
    }

    #[test]
    fn points_at_each_mistake() {
        let (found, mistakes) =
            parse("nothing\n9A=1\nB=\"open\nC='open\nD='a' b\nE=\"a\"b\nG=x\0\nKELSON_RUN=1\n");
        assert_eq!(found, []);
        let places: Vec<(u32, u32)> = mistakes.iter().map(|m| (m.line, m.column)).collect();
        assert_eq!(places, [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3), (6, 3), (7, 3), (8, 1)]);
        let messages: Vec<&str> = mistakes.iter().map(|m| m.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "there is no = in this line; write KEY=VALUE, or # before a comment",
                "\"9A\" is not a name for the environment; use letters, digits and _, no digit first",
                "the closing quote \" is missing in this line",
                "the closing quote ' is missing in this line",
                "something stands after the closing quote",
                "something stands after the closing quote",
                "the value of G holds a NUL byte",
                "KELSON_RUN is set by Kelson itself; use another name",
            ]
        );
    }
}
