//! Paths of volumes: one place has two of them where the plugin runs in a container.

use std::fmt;
use std::path::{Path, PathBuf};

use kelson_proto::v1::VolumePlugin;
use serde::{Deserialize, Serialize};

/// A path as the host sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPath(PathBuf);

/// The same path as its plugin sees it: for calls of the plugin alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginPath(String);

impl HostPath {
    pub fn new(path: impl Into<PathBuf>) -> HostPath {
        HostPath(path.into())
    }

    /// For calls of the system.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> HostPath {
        HostPath(self.0.join(name))
    }

    /// How the plugin sees it.
    ///
    /// # Errors
    /// When it is not in the folder of the plugin, so that the plugin cannot see it.
    pub fn seen_by(&self, plugin: &VolumePlugin) -> Result<PluginPath, String> {
        let folder = folder_of(plugin);
        let outside = || format!("{self} is not in {folder}, the folder of the plugin {:?}", plugin.id);
        let inner = self.0.strip_prefix(&folder.0).map_err(|_| outside())?;
        let seen = Path::new(&plugin.mount_dir).join(inner);
        Ok(PluginPath(seen.to_str().ok_or_else(outside)?.to_owned()))
    }
}

/// The folder of a plugin on the host.
pub fn folder_of(plugin: &VolumePlugin) -> HostPath {
    HostPath(Path::new(&plugin.socket).parent().unwrap_or(Path::new("/")).to_owned())
}

impl fmt::Display for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl PluginPath {
    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_sees_what_is_in_its_folder() {
        let plugin = VolumePlugin {
            id: "nfs".to_owned(),
            socket: "/run/kelson/csi/nfs/csi.sock".to_owned(),
            mount_dir: "/csi".to_owned(),
            ..VolumePlugin::default()
        };
        let seen = |path: &str| HostPath::new(path).seen_by(&plugin).map(PluginPath::into_text);
        assert_eq!(seen("/run/kelson/csi/nfs/published/db/data").unwrap(), "/csi/published/db/data");
        let error = seen("/run/kelson/csi/nfs2/published/db/data").unwrap_err();
        assert!(error.contains("is not in /run/kelson/csi/nfs, the folder of the plugin \"nfs\""), "{error}");
    }
}
