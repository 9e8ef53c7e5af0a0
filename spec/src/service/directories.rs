//! The folders of a service below `/run`, `/var/lib` and their like.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// All folders of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Directories {
    /// In the order in which they are made.
    pub list: Vec<Directory>,
    pub preserve: Preserve,
}

/// When the folders below `/run` are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Preserve {
    /// Each run has new ones, and none are left when the service has ended.
    #[default]
    Never,
    /// When the service has ended.
    Restart,
    Always,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    pub kind: DirectoryKind,
    /// Below that of its kind: names alone.
    pub path: PathBuf,
    #[serde(default = "Directory::mode")]
    pub mode: u32,
}

impl Directory {
    /// `mode` where the file has none.
    pub const MODE: u32 = 0o755;

    fn mode() -> u32 {
        Self::MODE
    }

    /// Its path from the root.
    pub fn whole(&self) -> PathBuf {
        Path::new(self.kind.base()).join(&self.path)
    }

    /// As one word of a command line, for the helper that makes it.
    pub fn to_word(&self) -> String {
        format!("{}:{:o}:{}", self.kind.name(), self.mode, self.path.display())
    }

    /// `None`: it is no word of [`Directory::to_word`].
    pub fn from_word(word: &str) -> Option<Directory> {
        let (kind, rest) = word.split_once(':')?;
        let (mode, path) = rest.split_once(':')?;
        let kind = DirectoryKind::ALL.into_iter().find(|known| known.name() == kind)?;
        let mode = u32::from_str_radix(mode, 8).ok()?;
        is_path(path).then(|| Directory { kind, path: path.into(), mode })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryKind {
    Runtime,
    State,
    Cache,
    Logs,
    Configuration,
}

impl DirectoryKind {
    pub const ALL: [DirectoryKind; 5] = [
        DirectoryKind::Runtime,
        DirectoryKind::State,
        DirectoryKind::Cache,
        DirectoryKind::Logs,
        DirectoryKind::Configuration,
    ];

    /// The key of the service file.
    pub fn name(self) -> &'static str {
        match self {
            DirectoryKind::Runtime => "runtime",
            DirectoryKind::State => "state",
            DirectoryKind::Cache => "cache",
            DirectoryKind::Logs => "logs",
            DirectoryKind::Configuration => "configuration",
        }
    }

    /// The folder that they are below.
    pub fn base(self) -> &'static str {
        match self {
            DirectoryKind::Runtime => "/run",
            DirectoryKind::State => "/var/lib",
            DirectoryKind::Cache => "/var/cache",
            DirectoryKind::Logs => "/var/log",
            DirectoryKind::Configuration => "/etc",
        }
    }

    /// The variable that names them to the service.
    pub fn variable(self) -> &'static str {
        match self {
            DirectoryKind::Runtime => "RUNTIME_DIRECTORY",
            DirectoryKind::State => "STATE_DIRECTORY",
            DirectoryKind::Cache => "CACHE_DIRECTORY",
            DirectoryKind::Logs => "LOGS_DIRECTORY",
            DirectoryKind::Configuration => "CONFIGURATION_DIRECTORY",
        }
    }
}

/// Whether it is a path of names alone, which leads to no folder above, and to none of Kelson's own. A variable has `:`
/// between two of them.
pub fn is_path(path: &str) -> bool {
    let mut parts = path.split('/');
    path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains([':', '\0']))
        && parts.next() != Some("kelson")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_survives_its_word() {
        for kind in DirectoryKind::ALL {
            let folder = Directory { kind, path: "shop/a b".into(), mode: 0o2750 };
            assert_eq!(Directory::from_word(&folder.to_word()), Some(folder));
        }
        for wrong in ["run:755:a", "runtime:755:../a", "runtime:9:a", "runtime:755", "state:755:/a"] {
            assert_eq!(Directory::from_word(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_path_leads_to_a_folder_below_that_is_not_kelsons() {
        for right in ["shop", "shop/spool", "kelson-shop", "shop/kelson", "a b", "..."] {
            assert!(is_path(right), "{right}");
        }
        for wrong in ["", "/", "/shop", "shop/", "a//b", ".", "a/..", "../a", "a:b", "kelson", "kelson/state"]
        {
            assert!(!is_path(wrong), "{wrong}");
        }
    }
}
