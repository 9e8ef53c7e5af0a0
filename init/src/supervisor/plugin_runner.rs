//! The folder of a service that is a plugin for volumes: made ready before each of its runs.
//!
//! It stays when the plugin has stopped: volumes may still be mounted in it, and the plugin finds them there again.

use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_helper::task::VolumeRequest;
use kelson_runner::{RunContext, Runner, RunnerError};
use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::CsiPlugin;
use kelson_spec::service::csi::plugin_folder;
use nix::unistd::geteuid;

use super::provided_runner::{ProvidedRunner, Provision, ask};

/// The runner of a service, which makes the folder of the plugin that it is.
pub(super) fn with_plugin(
    inner: Box<dyn Runner>,
    spec: &Arc<ServiceSpec>,
    tasks: &Arc<dyn Launcher>,
) -> Box<dyn Runner> {
    if const { !OWN.has(Feature::Volumes) } {
        return inner;
    }
    let Some(plugin) = spec.provides.clone() else { return inner };
    Box::new(ProvidedRunner::new(inner, Plugin { tasks: Arc::clone(tasks), plugin }))
}

struct Plugin {
    tasks: Arc<dyn Launcher>,
    plugin: CsiPlugin,
}

impl Provision for Plugin {
    async fn make(
        &mut self,
        inner: &mut dyn Runner,
        is_made: bool,
        _: &mut RunContext,
    ) -> Result<(), RunnerError> {
        if is_made {
            return Ok(());
        }
        let (uid, _) = inner.owner().await?;
        if uid != geteuid().as_raw() {
            return Err(RunnerError::new(format!(
                "provides: the folder of a plugin belongs to root, and this one would run as user {uid}; write user: root"
            )));
        }
        let folder = plugin_folder(&self.plugin.id);
        ask(&self.tasks, VolumeRequest::Plugin { folder, socket: self.plugin.socket.clone() }.whole()).await
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        Ok(())
    }
}
