//! The file of a volume: `volumes/NAME.yaml`. PID 1 never reads one: `kelson-load` checks them, and `kelson-volumes` uses them.

use std::collections::BTreeMap;
use std::fmt;

/// A volume of a CSI plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeFile {
    /// The name of the file, by which services refer to it.
    pub name: String,
    /// The id of its plugin.
    pub plugin: String,
    /// By which the plugin knows it.
    pub id: String,
    /// The file system of it. Empty: the plugin decides.
    pub fs_type: String,
    pub mount_flags: Vec<String>,
    pub context: Opaque,
    /// With which the plugin makes it.
    pub parameters: Opaque,
    /// The names of secrets of the host, by the keys under which the plugin gets their values.
    pub secrets: BTreeMap<String, String>,
}

/// Entries for a plugin alone: they are never shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Opaque(pub BTreeMap<String, String>);

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entries", self.0.len())
    }
}
