//! Folders with another one for what is written over them, as the source of a volume.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::path_source::NewFolder;

/// An overlay of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OverlaySource {
    /// The upper ones first.
    pub lower: Vec<PathBuf>,
    /// `None`: what is written is in memory, and gone with the run.
    pub upper: Option<Upper>,
    /// How both folders are made where they are missing. `None`: they have to be there.
    pub create: Option<NewFolder>,
    /// Bytes of memory. `None`: half of it.
    pub size: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Upper {
    /// What is written over the others.
    pub upper: PathBuf,
    /// For the kernel alone.
    pub work: PathBuf,
}

impl OverlaySource {
    /// In place of a type and a device.
    pub const KIND: &str = "overlay";
    /// The kernel takes a page of options.
    pub const LONGEST: usize = 4000;

    /// Its folders as options of the file system.
    pub fn options(&self) -> Vec<String> {
        let lower: Vec<String> = self.lower.iter().map(|path| path.display().to_string()).collect();
        let mut options = vec![format!("lowerdir={}", lower.join(":"))];
        if let Some(Upper { upper, work }) = &self.upper {
            options.push(format!("upperdir={}", upper.display()));
            options.push(format!("workdir={}", work.display()));
        }
        options
    }

    /// The folders that no other volume may have.
    pub fn own_folders(&self) -> impl Iterator<Item = &Path> {
        self.upper.iter().flat_map(|Upper { upper, work }| [upper.as_path(), work.as_path()])
    }
}
