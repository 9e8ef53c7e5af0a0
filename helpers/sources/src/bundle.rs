//! Several files in one text, as `kelsonctl get` prints them: each behind a line `--- # NAME`.

use std::collections::BTreeSet;

use kelson_load::{TREE_MAX, name_mistake};
use kelson_spec::applied::TreeFile;
use kelson_spec::names::MACHINE;
use kelson_spec::quote::quoted;

use crate::SourceError;

/// The beginning of the line before a file.
const MARK: &str = "--- # ";

/// Splits a text into its files. One without such lines is the machine file.
///
/// Empty lines stand in a file for the lines of the text before it, so that a mistake is reported with its line in the text.
///
/// # Errors
/// A name that is none of a configuration, a file that is there twice, or text before the first file. `place`: what the text
/// is called.
pub fn split(place: &str, text: &str) -> Result<Vec<TreeFile>, SourceError> {
    let wrong = |line: usize, what: String| SourceError::Bundle { place: place.to_owned(), line, what };
    let mut found: Vec<(usize, &str, String)> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        if let Some(name) = content.strip_prefix(MARK) {
            let name = name.trim_end();
            if let Some(mistake) = name_mistake(name) {
                return Err(wrong(line, mistake));
            }
            found.push((line, name, String::new()));
        } else if let Some((_, _, text)) = found.last_mut() {
            text.push_str(content);
            text.push('\n');
        } else if text.contains(&format!("\n{MARK}")) && is_content(content) {
            let what = format!("this line belongs to no file; write a line {MARK}{MACHINE} before it");
            return Err(wrong(line, what));
        }
    }
    if found.is_empty() {
        return Ok(vec![TreeFile { name: MACHINE.to_owned(), content: text.as_bytes().to_vec() }]);
    }
    let mut names = BTreeSet::new();
    if let Some((line, name, _)) = found.iter().find(|(_, name, _)| !names.insert(*name)) {
        return Err(wrong(*line, format!("{} is there twice", quoted(name))));
    }
    let padding = found.iter().fold(text.len(), |sum, (line, _, _)| sum.saturating_add(*line));
    let file = |(line, name, content): (usize, &str, String)| {
        // Many files of a long text would become too large.
        let before = if padding > TREE_MAX { 0 } else { line };
        TreeFile { name: name.to_owned(), content: ("\n".repeat(before) + &content).into_bytes() }
    };
    Ok(found.into_iter().map(file).collect())
}

fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#') && line != "---"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Vec<(String, String)> {
        let files = split("user-data", text).unwrap().into_iter();
        files.map(|file| (file.name, String::from_utf8(file.content).unwrap())).collect()
    }

    fn pair(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn files_keep_the_lines_at_which_they_stand() {
        assert_eq!(
            files(
                "# of edge-1\n--- # machine.yaml\nhostname: a\n--- # services/web.yaml\nname: web\n---\nx: y"
            ),
            [
                pair("machine.yaml", "\n\nhostname: a\n"),
                pair("services/web.yaml", "\n\n\n\nname: web\n---\nx: y\n")
            ]
        );
    }

    #[test]
    fn a_text_without_names_is_the_machine_file() {
        assert_eq!(files("---\nhostname: a\n"), [pair("machine.yaml", "---\nhostname: a\n")]);
        assert_eq!(files(""), [pair("machine.yaml", "")]);
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        let mistake = |text: &str| split("user-data", text).unwrap_err().to_string();
        let name = mistake("--- # machine.yaml\n--- # ../etc/passwd\n");
        assert!(
            name.starts_with("user-data, line 2: \"../etc/passwd\" is no file of a configuration"),
            "{name}"
        );
        assert_eq!(
            mistake("hostname: a\n--- # services/web.yaml\nname: web\n"),
            "user-data, line 1: this line belongs to no file; write a line --- # machine.yaml before it"
        );
        assert_eq!(
            mistake("--- # machine.yaml\n--- # machine.yaml\n"),
            "user-data, line 2: \"machine.yaml\" is there twice"
        );
    }

    #[test]
    fn a_long_text_of_many_files_does_not_grow() {
        let text: String =
            (0..2000).map(|n| format!("--- # services/s{n}.yaml\n{}", "#\n".repeat(50))).collect();
        let size: usize = split("x", &text).unwrap().iter().map(|file| file.content.len()).sum();
        assert!(size < text.len(), "{size}");
    }
}
