//! Where configuration comes from besides the configuration folder: `sources` of the machine file.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The folder in the runtime folder that holds what the sources gave, in a folder of the name of each.
pub const FOLDER: &str = "sources";

/// The sources that a host uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourcesSpec {
    /// In any order; [`SourceKind::ALL`] has the one that counts.
    pub from: Vec<SourceKind>,
    /// How long the boot waits for a disk.
    pub wait: Duration,
    /// Where the metadata are served.
    pub server: SocketAddr,
}

impl Default for SourcesSpec {
    fn default() -> Self {
        SourcesSpec {
            from: Vec::new(),
            wait: Duration::from_secs(10),
            // Of EC2, and of most others.
            server: SocketAddr::from(([169, 254, 169, 254], 80)),
        }
    }
}

impl SourcesSpec {
    /// Those that are used, in the order in which each overrides those before it.
    pub fn kinds(&self) -> impl Iterator<Item = SourceKind> {
        SourceKind::ALL.into_iter().filter(|kind| self.from.contains(kind))
    }
}

/// One source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceKind {
    /// A disk with the label [`SourceKind::LABEL`].
    Disk,
    /// Credentials of the hypervisor: SMBIOS strings and files of QEMU's fw_cfg.
    Credentials,
    /// A disk with the seed of a virtual machine, as cloud-init's NoCloud has it.
    NoCloud,
    /// The metadata of a machine in a cloud, as EC2 serves them.
    Metadata,
    /// Words of the kernel's command line.
    CommandLine,
}

impl SourceKind {
    /// Each overrides those before it.
    pub const ALL: [SourceKind; 5] = [
        SourceKind::Disk,
        SourceKind::Credentials,
        SourceKind::NoCloud,
        SourceKind::Metadata,
        SourceKind::CommandLine,
    ];

    /// The label of the disk that is a source.
    pub const LABEL: &str = "KELSON";

    /// Its word in the machine file, and the name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::Disk => "disk",
            SourceKind::Credentials => "credentials",
            SourceKind::NoCloud => "noCloud",
            SourceKind::Metadata => "metadata",
            SourceKind::CommandLine => "commandLine",
        }
    }

    /// What it gives belongs to an instance, and is remembered for boots at which it is not there.
    pub fn is_remembered(self) -> bool {
        matches!(self, SourceKind::NoCloud | SourceKind::Metadata)
    }

    /// It needs the network, and so the boot does not wait for it.
    pub fn is_late(self) -> bool {
        self == SourceKind::Metadata
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<SourceKind> {
        SourceKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_file_does_not_count() {
        let spec = SourcesSpec {
            from: vec![SourceKind::CommandLine, SourceKind::Disk, SourceKind::Disk],
            ..SourcesSpec::default()
        };
        assert_eq!(spec.kinds().collect::<Vec<_>>(), [SourceKind::Disk, SourceKind::CommandLine]);
        for kind in SourceKind::ALL {
            assert_eq!(SourceKind::named(kind.name()), Some(kind));
        }
    }
}
