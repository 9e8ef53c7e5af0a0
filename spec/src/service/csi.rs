//! What a service has to do with the Container Storage Interface: the plugin that it is, and the volumes of plugins that it
//! uses.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::workload::ContainerMount;

/// The folder of the host below which each plugin has one of its own, named by its id.
pub const PLUGINS: &str = "/run/kelson/csi";

/// A service that is a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiPlugin {
    /// The name by which the files of volumes refer to it.
    pub id: String,
    pub kind: PluginKind,
    /// Where a container sees the folder of the plugin. A process sees it where it is.
    pub mount_dir: PathBuf,
    /// The name of its socket in that folder.
    pub socket: String,
}

impl Default for CsiPlugin {
    fn default() -> Self {
        CsiPlugin {
            id: String::new(),
            kind: PluginKind::Monolith,
            mount_dir: "/csi".into(),
            socket: "csi.sock".to_owned(),
        }
    }
}

impl CsiPlugin {
    /// The variable of its environment that has the URL of its socket, as it sees it.
    pub const ENDPOINT: &str = "CSI_ENDPOINT";

    /// Its socket, as the host sees it.
    pub fn socket_path(&self) -> PathBuf {
        plugin_folder(&self.id).join(&self.socket)
    }

    /// The folder of the plugin as a mount of a container. Mounts that are made in it are seen on the host.
    pub fn mount(&self) -> ContainerMount {
        ContainerMount {
            source: plugin_folder(&self.id),
            target: self.mount_dir.clone(),
            options: vec!["rbind".to_owned(), "rshared".to_owned()],
            fs_type: String::new(),
        }
    }
}

/// Which calls a plugin answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum PluginKind {
    Node,
    Controller,
    /// Both.
    #[default]
    Monolith,
}

impl PluginKind {
    pub const ALL: [PluginKind; 3] = [PluginKind::Node, PluginKind::Controller, PluginKind::Monolith];

    pub fn name(self) -> &'static str {
        match self {
            PluginKind::Node => "node",
            PluginKind::Controller => "controller",
            PluginKind::Monolith => "monolith",
        }
    }

    pub fn is_node(self) -> bool {
        self != PluginKind::Controller
    }

    pub fn is_controller(self) -> bool {
        self != PluginKind::Node
    }
}

/// The folder of a plugin on the host: its socket, its stages and what it publishes are in it.
pub fn plugin_folder(id: &str) -> PathBuf {
    Path::new(PLUGINS).join(id)
}

/// A volume of a plugin, as a service uses it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiSource {
    /// The name of its file.
    pub volume: String,
    /// The id of its plugin, which its file has.
    pub plugin: String,
    pub usage: Usage,
    /// Where the plugin publishes it for the service. It is in the folder of the plugin.
    pub published: PathBuf,
}

impl CsiSource {
    /// Where the plugin publishes a volume for a service that calls it `name`.
    pub fn published_at(plugin: &str, service: &str, name: &str) -> PathBuf {
        plugin_folder(plugin).join("published").join(service).join(name)
    }
}

/// How a service uses a volume. Services with the same usage, and with the same `readOnly`, share a stage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub access: Access,
    pub attachment: Attachment,
    /// They replace those of the file of the volume. `None`: the file decides.
    pub mount_flags: Option<Vec<String>>,
}

/// The modes of `csi.v1.VolumeCapability.AccessMode`, without those that are deprecated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Access {
    #[default]
    SingleNodeWriter,
    SingleNodeReader,
    SingleNodeSingleWriter,
    SingleNodeMultiWriter,
    MultiNodeReader,
    MultiNodeSingleWriter,
    MultiNodeMultiWriter,
}

impl Access {
    pub const ALL: [Access; 7] = [
        Access::SingleNodeWriter,
        Access::SingleNodeReader,
        Access::SingleNodeSingleWriter,
        Access::SingleNodeMultiWriter,
        Access::MultiNodeReader,
        Access::MultiNodeSingleWriter,
        Access::MultiNodeMultiWriter,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Access::SingleNodeWriter => "singleNodeWriter",
            Access::SingleNodeReader => "singleNodeReader",
            Access::SingleNodeSingleWriter => "singleNodeSingleWriter",
            Access::SingleNodeMultiWriter => "singleNodeMultiWriter",
            Access::MultiNodeReader => "multiNodeReader",
            Access::MultiNodeSingleWriter => "multiNodeSingleWriter",
            Access::MultiNodeMultiWriter => "multiNodeMultiWriter",
        }
    }
}

/// As what a service sees a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Attachment {
    #[default]
    Filesystem,
    /// A device.
    Block,
}

impl Attachment {
    pub const ALL: [Attachment; 2] = [Attachment::Filesystem, Attachment::Block];

    pub fn name(self) -> &'static str {
        match self {
            Attachment::Filesystem => "filesystem",
            Attachment::Block => "block",
        }
    }
}
