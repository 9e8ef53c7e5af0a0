//! The file of contexts itself: read with pointed mistakes, written as a whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kelson_api::client::TlsMaterial;
use kelson_spec::quoted;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output::nearest;
use crate::store;

/// A text that marks PEM, and that no path holds.
const PEM: &str = "-----BEGIN ";

/// All that stands in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
    /// A key has come into it, as text: it is for the eyes of its owner from now on.
    #[serde(skip)]
    private: bool,
}

/// One host, with what is needed to reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl File {
    /// Reads the file that `word` has named.
    ///
    /// # Errors
    /// It cannot be read, or has mistakes; the sentence points at them.
    pub fn read(path: &Path, word: &str) -> Result<File, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("{word}: cannot read {}: {error}", path.display())))?;
        serde_yaml::from_str(&text).map_err(|error| {
            let place =
                error.location().map_or(String::new(), |at| format!(":{}:{}", at.line(), at.column()));
            let said = error.to_string();
            // The place stands in front, as in every other message about a file.
            let said = said.split(" at line ").next().unwrap_or_default().to_owned();
            Failure::Usage(format!("{}{place}: {said}", path.display()))
        })
    }

    /// [`File::read`], or an empty one where there is none yet.
    ///
    /// # Errors
    /// As [`File::read`].
    pub fn read_or_begin(path: &Path, word: &str) -> Result<File, Failure> {
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(File::default()),
            _ => File::read(path, word),
        }
    }

    /// Writes it in the place of what is there.
    ///
    /// # Errors
    /// It cannot be written; then nothing has changed.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_yaml::to_string(self)
            .map_err(|error| Failure::Failed(format!("the contexts cannot be written: {error}")))?;
        store::replace(path, text, self.private)
    }

    /// The sentence about a context that the file has not; `by` is the word that has named it.
    pub fn unknown(&self, path: &Path, name: &str, by: &str) -> Failure {
        let next = match nearest(name, self.contexts.keys().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None if self.contexts.is_empty() => "it has none".to_owned(),
            None => format!("there are: {}", self.names()),
        };
        Failure::Usage(format!("{} has no context {} ({by}); {next}", path.display(), quoted(name)))
    }

    /// `a, b, c`.
    pub fn names(&self) -> String {
        self.contexts.keys().cloned().collect::<Vec<_>>().join(", ")
    }

    /// Adds a context. It becomes the current one where none is.
    pub fn add(&mut self, name: String, context: Context) {
        self.current.get_or_insert_with(|| name.clone());
        self.private |= context.key.as_deref().is_some_and(is_pem);
        self.contexts.insert(name, context);
    }
}

impl Context {
    /// The material for TLS; paths are relative to the file of contexts.
    ///
    /// # Errors
    /// A part is missing, or is neither PEM text nor the path of one.
    pub fn material(&self, file: &Path) -> Result<TlsMaterial, Failure> {
        Ok(TlsMaterial {
            ca: pem(file, "ca", self.ca.as_deref())?,
            certificate: pem(file, "certificate", self.certificate.as_deref())?,
            key: pem(file, "key", self.key.as_deref())?,
        })
    }

    /// The same context for a file in another folder: its paths, which were relative to `folder`, begin with `/`.
    pub fn with_absolute_paths(mut self, folder: &Path) -> Context {
        for value in [&mut self.ca, &mut self.certificate, &mut self.key].into_iter().flatten() {
            if !is_pem(value) {
                *value = folder.join(&*value).display().to_string();
            }
        }
        self
    }
}

/// The absolute path of the folder in which a file lies.
///
/// # Errors
/// There is no such folder.
pub fn folder_of(file: &Path) -> Result<PathBuf, Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::canonicalize(folder)
        .map_err(|error| Failure::Failed(format!("cannot find the folder {}: {error}", folder.display())))
}

fn is_pem(value: &str) -> bool {
    value.contains(PEM)
}

/// A PEM text as it stands in the file of contexts, or read from the file that it names.
fn pem(config: &Path, key: &str, value: Option<&str>) -> Result<Vec<u8>, Failure> {
    let Some(value) = value else {
        return Err(Failure::Usage(format!(
            "{}: the context has no `{key}:`; it takes a path or PEM text",
            config.display()
        )));
    };
    if is_pem(value) {
        return Ok(value.as_bytes().to_vec());
    }
    let path = config.parent().unwrap_or(Path::new("")).join(value);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Failure::Usage(format!("{}: cannot read `{key}:` {}: {error}", config.display(), path.display()))
    })?;
    if !is_pem(&text) {
        return Err(Failure::Usage(format!(
            "{}: {} (`{key}:`) holds no PEM text; it begins with -----BEGIN",
            config.display(),
            path.display()
        )));
    }
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let folder = crate::samples::Folder::new();
        let path = folder.join("config");
        let mut file = File::read_or_begin(&path, "--file").unwrap();
        let text = "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n".to_owned();
        let context = Context {
            endpoint: "[::1]:50000".to_owned(),
            ca: Some("ca.pem".to_owned()),
            certificate: Some("yes".to_owned()),
            key: Some(text),
        };
        file.add("edge: 1".to_owned(), context.clone());
        file.add(
            "b".to_owned(),
            Context { endpoint: "h:1".to_owned(), ca: None, certificate: None, key: None },
        );
        file.write(&path).unwrap();
        let again = File::read(&path, "--file").unwrap();
        assert_eq!((again.current.as_deref(), &again.contexts), (Some("edge: 1"), &file.contexts));
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written.contains("    key: |\n      -----BEGIN PRIVATE KEY-----\n      AA==\n"), "{written}");
        let moved = context.clone().with_absolute_paths(&folder);
        assert_eq!(moved.ca, Some(folder.join("ca.pem").display().to_string()));
        assert_eq!(moved.key, context.key, "a text is no path");
    }
}
