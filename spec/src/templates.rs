//! Files that a service gets from templates, with what is registered in the fleet.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The folder of the rendered texts in the runtime folder; `kelson-fleet` writes it.
const FOLDER: &str = "fleet/templates";
/// The folder of what changes have still to do, in the runtime folder; `kelson-task` writes it.
const PENDING: &str = "templates";
/// The longest path of a source, in bytes: twice as many are no longer than the name of a file may be.
pub const LONGEST_SOURCE: usize = 120;

/// A template, and the file that a service gets from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Template {
    pub source: PathBuf,
    pub target: PathBuf,
    /// The permissions of the target.
    pub mode: u32,
    pub on_change: OnChange,
}

impl Template {
    pub const MODE: u32 = 0o644;
}

/// What happens to a service that runs when its file changes. The later ones do more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OnChange {
    #[default]
    None,
    Reload,
    Restart,
}

impl OnChange {
    pub const ALL: [OnChange; 3] = [OnChange::None, OnChange::Reload, OnChange::Restart];

    /// As the service file names it.
    pub fn name(self) -> &'static str {
        match self {
            OnChange::None => "none",
            OnChange::Reload => "reload",
            OnChange::Restart => "restart",
        }
    }

    /// `None`: it is no such word.
    pub fn of_name(name: &str) -> Option<OnChange> {
        OnChange::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// The file with the text that was rendered from a source.
pub fn rendered(runtime: &Path, source: &Path) -> PathBuf {
    let name = source.to_string_lossy().replace('!', "!!").replace('/', "!-");
    runtime.join(FOLDER).join(name)
}

/// The file with what changes have still to do for a service.
pub fn pending(runtime: &Path, service: &str) -> PathBuf {
    runtime.join(PENDING).join(service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_a_file_of_its_own() {
        let rendered = |source: &str| rendered(Path::new("/run/kelson"), Path::new(source));
        assert_eq!(rendered("/etc/a.cfg"), Path::new("/run/kelson/fleet/templates/!-etc!-a.cfg"));
        assert_ne!(rendered("/a!/b"), rendered("/a/!b"));
        assert!(OnChange::Restart > OnChange::Reload && OnChange::Reload > OnChange::None);
    }
}
