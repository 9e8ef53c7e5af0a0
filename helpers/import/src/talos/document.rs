//! The documents of a file: an extension service is a file of its own, and configuration documents stand in a row.

use crate::yaml::Value;

/// A file as it lies on a disk.
#[derive(Debug, Clone, Copy)]
pub struct File<'t> {
    /// For messages.
    pub name: &'t str,
    pub text: &'t str,
}

/// Why a document is no service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0}: the YAML parser failed on it; simplify it")]
    Parser(String),
    #[error("{0}:{1}: {2}")]
    At(String, u32, String),
    #[error("{0}: the file is empty; it needs an extension service or a configuration document")]
    Empty(String),
}

/// What a document describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has no `kind`: the file that a system extension brings.
    Extension,
    /// `ExtensionServiceConfig`.
    Configuration,
    /// `ContainerConfig`.
    Container,
    /// No service.
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// For messages.
    pub file: String,
    pub kind: Kind,
    pub value: Value,
}

impl Document {
    pub fn name(&self) -> &str {
        self.value.get("name").and_then(Value::text).unwrap_or_default()
    }
}

/// The documents of a file, in their order.
///
/// # Errors
/// Where one cannot be read.
pub fn all(file: &File<'_>) -> Result<Vec<Document>, Error> {
    let (name, texts) = (file.name.to_owned(), split(file.text));
    // The YAML parser is not ours.
    let documents = kelson_load::guarded(move || {
        texts.iter().filter_map(|text| document(&name, text).transpose()).collect::<Result<Vec<_>, Error>>()
    })?;
    if documents.is_empty() { Err(Error::Empty(file.name.to_owned())) } else { Ok(documents) }
}

/// The texts of the documents, each with as many empty lines before it as lines precede it in the file.
fn split(text: &str) -> Vec<String> {
    let mut texts = vec![String::new()];
    for (number, line) in text.lines().enumerate() {
        let is_mark = |mark: &str| line.strip_prefix(mark).is_some_and(|rest| rest.trim_end().is_empty());
        if is_mark("---") || is_mark("...") {
            texts.push("\n".repeat(number.saturating_add(1)));
        } else if let Some(last) = texts.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    texts
}

/// `None`: nothing is in it.
fn document(file: &str, text: &str) -> Result<Option<Document>, Error> {
    let at = |line: u32, message: String| Error::At(file.to_owned(), line, message);
    let (root, mistakes) = kelson_load::parse(text).ok_or_else(|| Error::Parser(file.to_owned()))?;
    if let Some(mistake) = mistakes.into_iter().next() {
        return Err(at(mistake.at.line, mistake.message));
    }
    let Some(root) = root else { return Ok(None) };
    let value = Value::plain(&root);
    if value.is_empty() {
        return Ok(None);
    }
    if value.entries().is_empty() {
        return Err(at(value.line, "this is no mapping of keys to values".to_owned()));
    }
    let has = |key: &str| value.get(key).is_some();
    let kind = match value.get("kind") {
        None if has("container") || !(has("machine") || has("cluster")) => Kind::Extension,
        None => Kind::Other,
        Some(kind) => match kind.text() {
            Some("ExtensionServiceConfig") => Kind::Configuration,
            Some("ContainerConfig") => Kind::Container,
            _ => Kind::Other,
        },
    };
    Ok(Some(Document { file: file.to_owned(), kind, value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_keep_the_lines_of_their_file() {
        let text = "# first\nname: a\ncontainer: {}\n---\nkind: ContainerConfig\nname: b\n...\n---   \n\n";
        let found = all(&File { name: "f", text }).unwrap();
        let found: Vec<(Kind, u32, &str)> =
            found.iter().map(|one| (one.kind, one.value.get("name").unwrap().line, one.name())).collect();
        assert_eq!(found, [(Kind::Extension, 2, "a"), (Kind::Container, 6, "b")]);
        let error = all(&File { name: "f", text: "a: b\n---\n- c\n" }).unwrap_err();
        assert_eq!(error.to_string(), "f:3: this is no mapping of keys to values");
        // What begins with dashes in a text is none.
        let text = "kind: X\ncontent: |\n  ---\n  a\n";
        assert_eq!(all(&File { name: "f", text }).unwrap().len(), 1);
    }
}
