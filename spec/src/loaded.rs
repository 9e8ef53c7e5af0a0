//! The result of reading a configuration folder: the specs that are good, and the mistakes of the rest.

use kelson_sys::ordered;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::group::GroupSpec;
use crate::machine::MachineSpec;
use crate::names::{GROUPS, MACHINE, VOLUMES};
use crate::quote::path;
use crate::service::ServiceSpec;
use crate::sources::SourceKind;

/// One mistake: where it is, what was found and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    pub file: PathBuf,
    /// Counted from 1; 0 where the whole file is meant.
    pub line: u32,
    /// Counted from 1; 0 where the whole file is meant.
    pub column: u32,
    /// The service it makes faulty, where it belongs to one.
    pub service: Option<String>,
    pub message: String,
}

impl Diagnostic {
    /// Whether it concerns the machine file.
    pub fn is_of_the_machine_file(&self) -> bool {
        self.file.ends_with(MACHINE) && !self.is_of_a_group() && !self.is_of_a_volume()
    }

    /// Whether it concerns the file of a group.
    pub fn is_of_a_group(&self) -> bool {
        self.is_within(GROUPS)
    }

    /// Whether it concerns the file of a volume.
    pub fn is_of_a_volume(&self) -> bool {
        self.is_within(VOLUMES)
    }

    fn is_within(&self, folder: &str) -> bool {
        self.service.is_none() && self.file.parent().is_some_and(|parent| parent.ends_with(folder))
    }

    /// Whether it concerns a whole folder, and not one file in it.
    pub fn is_of_a_folder(&self) -> bool {
        let extension = self.file.extension().and_then(std::ffi::OsStr::to_str);
        self.service.is_none() && !matches!(extension, Some("yaml" | "yml"))
    }
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = path(&self.file);
        match self.line {
            0 => write!(f, "{file}: {}", self.message),
            _ => write!(f, "{file}:{}:{}: {}", self.line, self.column, self.message),
        }
    }
}

/// The facts that only the host knows, or a copy of its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unchecked {
    Users,
    EnvironmentFiles,
    Certificates,
}

impl Unchecked {
    /// The words for it.
    pub fn name(self) -> &'static str {
        match self {
            Unchecked::Users => "users and groups",
            Unchecked::EnvironmentFiles => "environment files",
            Unchecked::Certificates => "certificates of checks",
        }
    }
}

/// A configuration folder as read: what is good, and what is wrong with the rest.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Loaded {
    pub machine: MachineSpec,
    /// Only services without a mistake, sorted by name.
    pub services: Vec<ServiceSpec>,
    /// Only those with a file without a mistake, sorted by name.
    pub groups: Vec<GroupSpec>,
    /// All mistakes, sorted by file, line and column.
    pub diagnostics: Vec<Diagnostic>,
    /// Entries that are no mistakes and hardly meant, sorted by file, line and column.
    pub warnings: Vec<Diagnostic>,
    /// The group `kelson`, whose members may open PID 1's socket; `None`: there is none.
    pub api_group: Option<u32>,
    /// The built-in service `containerd` is on.
    pub containerd: bool,
    /// The known facts about the services of [`Self::faulty`], sorted by name.
    pub refused: Vec<Refused>,
    /// When the files were read; PID 1 notes it. `None`: not known.
    pub read_at: Option<SystemTime>,
    /// The facts that were not checked, because the files that they depend on are not at hand.
    #[serde(skip)]
    pub unchecked: BTreeSet<Unchecked>,
    /// When the version was read that a service of [`Self::faulty`] goes on with.
    pub kept_versions: BTreeMap<String, SystemTime>,
    /// The configuration that was applied from outside and read; `None`: it was the folder of the host itself.
    pub generation: Option<u64>,
    /// The sources that were left out because of a mistake, which is in the warnings.
    pub skipped: Vec<SourceKind>,
}

/// A service that is not started because of its mistakes, as far as its file could be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub name: String,
    pub group: Option<String>,
    /// As its file says; where that cannot be read, it is.
    pub required: bool,
}

impl Loaded {
    /// Why not all files are known: a folder could not be read. `None`: each file was read, or has a mistake of its own.
    pub fn unread(&self) -> Option<String> {
        let unread: Vec<String> =
            self.diagnostics.iter().filter(|found| found.is_of_a_folder()).map(ToString::to_string).collect();
        (!unread.is_empty()).then(|| unread.join("; "))
    }

    /// Whether the machine file has mistakes.
    pub fn machine_is_faulty(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_of_the_machine_file)
    }

    /// Groups whose files have mistakes.
    pub fn faulty_groups(&self) -> Vec<&str> {
        let of_groups = self.diagnostics.iter().filter(|found| found.is_of_a_group());
        of_groups.filter_map(|found| found.file.file_stem()?.to_str()).collect()
    }

    /// Notes when the versions were read that faulty services go on with: those that `goes_on` names, after `before`.
    pub fn keep_versions(&mut self, before: &Loaded, goes_on: impl Fn(&str) -> bool) {
        let known = before.faulty();
        let version = |name: &str| match known.binary_search(&name) {
            Ok(_) => before.kept_versions.get(name).copied(),
            Err(_) => before.read_at,
        };
        let names = self.faulty().into_iter().filter(|name| goes_on(name));
        let kept = names.filter_map(|name| Some((name.to_owned(), version(name)?)));
        self.kept_versions = ordered::map(kept);
    }

    /// Names of the services that are not started because of their mistakes, each once, sorted.
    pub fn faulty(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.diagnostics.iter().filter_map(|d| d.service.as_deref()).collect();
        ordered::sort(&mut names);
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_version_keeps_the_time_of_the_last_reading_without_a_mistake() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let read = |seconds, faulty: &[&str]| {
            let diagnostic = |name: &&str| Diagnostic {
                file: format!("{name}.yaml").into(),
                line: 1,
                column: 1,
                service: Some((*name).to_owned()),
                message: "unknown key".to_owned(),
            };
            let diagnostics = faulty.iter().map(diagnostic).collect();
            Loaded { read_at: Some(at(seconds)), diagnostics, ..Loaded::default() }
        };
        let kept = |loaded: &Loaded| loaded.kept_versions.clone().into_iter().collect::<Vec<_>>();
        let first = read(1, &["never"]);
        let mut second = read(2, &["db", "never"]);
        second.keep_versions(&first, |name| name != "never");
        assert_eq!(kept(&second), [("db".to_owned(), at(1))]);
        let mut third = read(3, &["db", "web"]);
        third.keep_versions(&second, |_| true);
        assert_eq!(kept(&third), [("db".to_owned(), at(1)), ("web".to_owned(), at(2))]);
        let mut fourth = read(4, &["web"]);
        fourth.keep_versions(&third, |_| true);
        assert_eq!(kept(&fourth), [("web".to_owned(), at(2))]);
    }
}
