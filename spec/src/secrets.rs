//! Secrets: values that an operator or a source gives, which the services that name them get as files.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::quote::quoted;
use crate::sources::{self, SourceKind};

/// The folder of the sealed values in the state folder, and that of the files of services in the runtime folder.
pub const FOLDER: &str = "secrets";
/// The key of the host, in the state folder beside [`FOLDER`]: a copy of the sealed values does not hold it.
pub const KEY: &str = "secrets.key";
/// The variable that names the folder of its secrets to a service, as systemd calls it.
pub const VARIABLE: &str = "CREDENTIALS_DIRECTORY";
/// The folder of its secrets in a container.
pub const IN_CONTAINER: &str = "/run/secrets";
/// The longest value, in bytes.
pub const LONGEST_VALUE: usize = 64 << 10;
/// The most secrets of a source, and the most bytes of all of them.
pub const MOST_OF_SOURCE: usize = 200;
pub const MOST_BYTES_OF_SOURCE: usize = 1_000_000;
/// The longest name, in characters.
pub const LONGEST_NAME: usize = 64;
/// The longest path of a file, in bytes.
pub const LONGEST_FILE: usize = 255;

/// The folder of the secrets of a service, in the runtime folder.
pub fn folder(runtime: &Path, service: &str) -> PathBuf {
    runtime.join(FOLDER).join(service)
}

/// The folder of the secrets that a source of the configuration gave, in that of what the sources gave.
pub fn source_folder(sources: &Path, kind: SourceKind) -> PathBuf {
    sources.join(FOLDER).join(kind.name())
}

/// The source whose secret of this name counts, and its file. It is in memory, and stays as the boot has collected it.
pub fn given(runtime: &Path, name: &str) -> Option<(SourceKind, PathBuf)> {
    let sources = runtime.join(sources::FOLDER);
    let file = |kind| (kind, source_folder(&sources, kind).join(name));
    SourceKind::ALL.into_iter().rev().filter(|_| is_name(name)).map(file).find(|(_, file)| file.exists())
}

/// Whether it may be the name of a secret: `[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}`.
pub fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// The mistake of a name for which [`is_name`] is false.
pub fn wrong_name(name: &str) -> String {
    let name = quoted(name);
    format!(
        "{name} is not the name of a secret; use letters, digits, _, . and -, at most {LONGEST_NAME}, not . or - first"
    )
}

/// Whether it may be the path of a file in the folder of a service: each part is such a name, so it leads nowhere else.
pub fn is_file(file: &Path) -> bool {
    file.as_os_str().len() <= LONGEST_FILE && file.to_str().is_some_and(|file| file.split('/').all(is_name))
}

/// A secret that a service gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretUse {
    pub name: String,
    /// In the folder of the service.
    pub file: PathBuf,
    /// The permissions of the file.
    pub mode: u32,
    /// `None`: the service keeps what it has until its next start.
    pub on_change: Option<OnChange>,
}

/// What happens to a service that runs when one of its secrets gets another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnChange {
    Restart,
    /// The file gets the value, and the service this signal.
    Signal(i32),
}

impl SecretUse {
    /// For its owner, who reads it.
    pub const MODE: u32 = 0o400;

    /// As the short form has it.
    pub fn of(name: &str) -> SecretUse {
        SecretUse { name: name.to_owned(), file: name.into(), mode: SecretUse::MODE, on_change: None }
    }

    /// As one word of a command line, for the helper that places it.
    pub fn to_word(&self) -> String {
        format!("{:o}:{}:{}", self.mode, self.name, self.file.display())
    }

    /// `None`: it is no word of [`SecretUse::to_word`].
    pub fn from_word(word: &str) -> Option<SecretUse> {
        let (mode, rest) = word.split_once(':')?;
        let (name, file) = rest.split_once(':')?;
        let mode = u32::from_str_radix(mode, 8).ok()?;
        let secret = SecretUse { file: file.into(), mode, ..SecretUse::of(name) };
        (is_name(name) && is_file(&secret.file)).then_some(secret)
    }
}

impl Default for SecretUse {
    fn default() -> SecretUse {
        SecretUse::of("")
    }
}

/// A secret that the host keeps, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSecret {
    pub name: String,
    /// What is known of it, or why it cannot be opened.
    pub found: Result<About, String>,
}

/// What is sealed with a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Bytes of the value.
    pub size: u64,
    pub set_at: SystemTime,
    /// Who set it.
    pub author: String,
    /// The source of the configuration from which it is; empty: an operator set it.
    pub source: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files_stay_in_their_folder() {
        for name in ["db-password", "tls.key", "API_KEY", "_x", "7", &"a".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", ".hidden", "-a", "a/b", "a b", "a\0", "ä", &"a".repeat(65)] {
            assert!(!is_name(name), "{name:?}");
        }
        for file in ["a", "tls/key.pem", "a/b/c"] {
            assert!(is_file(Path::new(file)), "{file}");
        }
        for file in ["", "/a", "..", "a/../b", "./a", "a/", "a//b", "a\nb", &"a/".repeat(128)] {
            assert!(!is_file(Path::new(file)), "{file:?}");
        }
    }

    #[test]
    fn a_use_survives_the_command_line() {
        let long = SecretUse { file: "tls/key.pem".into(), mode: 0o440, ..SecretUse::of("tls-key") };
        assert_eq!(long.to_word(), "440:tls-key:tls/key.pem");
        for one in [SecretUse::of("db"), long] {
            assert_eq!(SecretUse::from_word(&one.to_word()), Some(one));
        }
        for word in ["", "400:db", "9:db:db", "400:../db:db", "400:db:../db", "400::x"] {
            assert_eq!(SecretUse::from_word(word), None, "{word}");
        }
    }
}
