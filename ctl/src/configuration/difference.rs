//! The differences between two configurations, file by file.

use std::collections::{BTreeMap, BTreeSet};

use kelson_proto::v1::ConfigurationFile;
use similar::TextDiff;

use crate::output::text::lossy;
use crate::output::{Palette, Tone, escape, views};

/// How a file differs.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    pub name: String,
    /// added, removed or changed.
    pub change: &'static str,
    /// As `diff -u` writes it.
    pub diff: String,
}

views! {
    Difference: difference { name, change, diff }
}

/// The files that differ, by name.
pub fn differences(old: &[ConfigurationFile], new: &[ConfigurationFile]) -> Vec<Difference> {
    let contents = |files: &[ConfigurationFile]| -> BTreeMap<String, String> {
        files.iter().map(|file| (file.name.clone(), lossy(&file.content))).collect()
    };
    let (old, new) = (contents(old), contents(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    changed
        .map(|name| {
            let (before, after) = (old.get(name), new.get(name));
            let text = |side: Option<&String>| side.map_or_else(String::new, Clone::clone);
            let side = |letter: &str, side: Option<&String>| match side {
                Some(_) => format!("{letter}/{name}"),
                None => "/dev/null".to_owned(),
            };
            let (one, other) = (text(before), text(after));
            let diff = TextDiff::from_lines(&one, &other);
            let diff = diff.unified_diff().header(&side("a", before), &side("b", after)).to_string();
            let change = match (before, after) {
                (None, _) => "added",
                (_, None) => "removed",
                _ => "changed",
            };
            Difference { name: name.clone(), change, diff }
        })
        .collect()
}

/// All of them for people, in colours on a terminal.
pub fn text(differences: &[Difference], palette: Palette) -> String {
    let lines = differences.iter().flat_map(|difference| difference.diff.lines());
    lines
        .map(|line| {
            let tone = match line.as_bytes().first() {
                _ if line.starts_with("+++ ") || line.starts_with("--- ") => Tone::Strong,
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                Some(b'@') => Tone::Busy,
                _ => Tone::Plain,
            };
            palette.paint(tone, &escape(line)) + "\n"
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> ConfigurationFile {
        ConfigurationFile { name: name.to_owned(), content: text.as_bytes().to_vec() }
    }

    #[test]
    fn each_file_that_differs_has_its_lines() {
        let old = [
            file("machine.yaml", "a: 1\n"),
            file("services/a.yaml", "x\ny\n"),
            file("services/b.yaml", "z\n"),
        ];
        let new = [
            file("machine.yaml", "a: 1\n"),
            file("services/a.yaml", "x\n\u{1b}[2J\n"),
            file("services/c.yaml", "w"),
        ];
        let found = differences(&old, &new);
        let told: Vec<(&str, &str)> = found.iter().map(|found| (found.name.as_str(), found.change)).collect();
        assert_eq!(
            told,
            [("services/a.yaml", "changed"), ("services/b.yaml", "removed"), ("services/c.yaml", "added")]
        );
        let text = text(&found, Palette::None);
        assert!(
            text.contains(
                "--- a/services/a.yaml\n+++ b/services/a.yaml\n@@ -1,2 +1,2 @@\n x\n-y\n+\\x1b[2J\n"
            ),
            "{text}"
        );
        assert!(text.contains("--- /dev/null\n+++ b/services/c.yaml\n@@ -0,0 +1 @@\n+w\n"), "{text}");
        assert!(differences(&old, &old).is_empty());
    }
}
