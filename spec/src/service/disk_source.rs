//! The file system of a disk as the source of a volume.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A disk, whose file system is mounted for the service alone. Several services may use one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskSource {
    /// A [name of a disk](crate::disk::DiskName); once it is found, the path of its device.
    pub device: String,
    /// `auto`: what is found there.
    pub fs_type: String,
    /// Those of the file system, each one word.
    pub options: Vec<String>,
    /// How long a start waits for the disk.
    pub wait: Duration,
}

impl Default for DiskSource {
    fn default() -> Self {
        DiskSource {
            device: String::new(),
            fs_type: Self::AUTO.to_owned(),
            options: Vec::new(),
            wait: Duration::from_secs(10),
        }
    }
}

/// What is known of a disk once it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundDisk {
    pub device: PathBuf,
    pub fs_type: String,
}

impl FoundDisk {
    /// As the words of an answer.
    pub fn to_words(&self) -> String {
        format!("{} {}", self.fs_type, self.device.display())
    }

    /// All that are in an answer.
    pub fn of_words(words: &str) -> Vec<FoundDisk> {
        let (types, devices) = (words.split(' ').step_by(2), words.split(' ').skip(1).step_by(2));
        let one = |(fs_type, device): (&str, &str)| FoundDisk {
            device: Path::new(device).to_owned(),
            fs_type: fs_type.to_owned(),
        };
        types.zip(devices).map(one).collect()
    }
}

impl DiskSource {
    /// In place of a type.
    pub const AUTO: &str = "auto";
    /// The option with which nobody writes to the file system.
    pub const READ_ONLY: &str = "ro";

    /// With what was found in place of its name.
    pub fn found(&mut self, disk: FoundDisk) {
        self.device = disk.device.to_string_lossy().into_owned();
        self.fs_type = disk.fs_type;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_survive_their_words() {
        let disk = |device: &str, fs_type: &str| FoundDisk { device: device.into(), fs_type: fs_type.into() };
        let disks = vec![disk("/dev/vda1", "ext4"), disk("/dev/dm-0", "xfs")];
        let words: Vec<String> = disks.iter().map(FoundDisk::to_words).collect();
        assert_eq!(FoundDisk::of_words(&words.join(" ")), disks);
        assert_eq!(FoundDisk::of_words(""), []);
    }
}
