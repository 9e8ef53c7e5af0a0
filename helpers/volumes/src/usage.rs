//! How a service uses a volume.

use kelson_proto::v1::VolumeUse;
use kelson_spec::service::{Access, Attachment};
use kelson_sys::crc32::crc32;
use serde::{Deserialize, Serialize};

use crate::path::HostPath;

/// Services with the same usage share a stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Usage {
    pub access: Access,
    pub attachment: Attachment,
    pub read_only: bool,
    /// They replace those of the file of the volume. `None`: the file decides.
    pub mount_flags: Option<Vec<String>>,
}

impl Usage {
    /// The name of the folder of its stage: what it is in short, and a checksum of all of it.
    pub fn folder(&self) -> String {
        let flags = self.mount_flags.as_ref().map(|flags| flags.join("\0"));
        let write = if self.read_only { "ro" } else { "rw" };
        let (access, attachment) = (self.access.name(), self.attachment.name());
        let sum = crc32(format!("{flags:?}").as_bytes());
        format!("{write}-{attachment}-{access}-{sum:08x}")
    }
}

/// One volume of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The name by which the service refers to it.
    pub name: String,
    pub volume: String,
    pub plugin: String,
    pub usage: Usage,
    /// Where it is published.
    pub target: HostPath,
}

impl Use {
    /// # Errors
    /// When PID 1 is of another version, and has words that this process does not know.
    pub fn new(message: VolumeUse) -> Result<Use, String> {
        let VolumeUse { name, volume, plugin, access, attachment, mount_flags, read_only, published } =
            message;
        let unknown = |word: &str| format!("{word:?} is no usage of a volume");
        let access =
            Access::ALL.into_iter().find(|one| one.name() == access).ok_or_else(|| unknown(&access))?;
        let attachment = Attachment::ALL
            .into_iter()
            .find(|one| one.name() == attachment)
            .ok_or_else(|| unknown(&attachment))?;
        let mount_flags = mount_flags.map(|flags| flags.flags);
        let usage = Usage { access, attachment, read_only, mount_flags };
        Ok(Use { name, volume, plugin, usage, target: HostPath::new(published) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_usage_has_a_folder_of_its_own() {
        let usage = |read_only, mount_flags: Option<&[&str]>| Usage {
            access: Access::SingleNodeWriter,
            attachment: Attachment::Filesystem,
            read_only,
            mount_flags: mount_flags.map(|flags| flags.iter().map(|flag| (*flag).to_owned()).collect()),
        };
        let all = [
            usage(false, None),
            usage(true, None),
            usage(false, Some(&[])),
            usage(false, Some(&["noatime"])),
            usage(false, Some(&["noatime", "nodev"])),
        ];
        let folders: std::collections::BTreeSet<String> = all.iter().map(Usage::folder).collect();
        assert_eq!(folders.len(), all.len());
        assert!(all[0].folder().starts_with("rw-filesystem-singleNodeWriter-"), "{folders:?}");
    }
}
