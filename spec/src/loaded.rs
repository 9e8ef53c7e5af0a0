//! What a reading of a configuration folder found: the specs that are good, and what is wrong with the rest.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::group::GroupSpec;
use crate::machine::MachineSpec;
use crate::names::{GROUPS, MACHINE};
use crate::quote::path;
use crate::service::ServiceSpec;

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
        self.file.ends_with(MACHINE) && !self.is_of_a_group()
    }

    /// Whether it concerns the file of a group.
    pub fn is_of_a_group(&self) -> bool {
        self.service.is_none() && self.file.parent().is_some_and(|folder| folder.ends_with(GROUPS))
    }

    /// Whether it concerns a whole folder, and not one file in it.
    fn is_of_a_folder(&self) -> bool {
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
    /// What is no mistake and hardly meant, sorted by file.
    pub warnings: Vec<Diagnostic>,
    /// The group `kelson`, whose members may open PID 1's socket; `None`: there is none.
    pub api_group: Option<u32>,
    /// The built-in service `containerd` is on.
    pub containerd: bool,
    /// What is known of the services of [`Self::faulty`], sorted by name.
    pub refused: Vec<Refused>,
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

    /// Names of the services that are not started because of their mistakes, each once, sorted.
    pub fn faulty(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.diagnostics.iter().filter_map(|d| d.service.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
