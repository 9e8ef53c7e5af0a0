//! This host and its plugins: performs the steps of volumes for real.

use std::sync::Arc;

use kelson_helper::BoxFuture;
use kelson_proto::v1::{VolumeAction, VolumeActionDone, VolumePlugin, VolumeProvider, VolumeStatistics};
use kelson_spec::service::{Access, Attachment};
use kelson_spec::volume_file::VolumeFile;
use tonic::Code;

use crate::csi::v1 as csi;
use crate::csi::v1::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume, access_mode::Mode,
};
use crate::job::{
    Cancelled, Context, Facts, Failure, InUse, Job, Outcome, Place, Provided, Step, Subject, World,
};
use crate::path::{HostPath, folder_of};
use crate::place::Places;
use crate::plugins::{Deadlines, Part, Plugins, Refusal, call};
use crate::provider;
use crate::record::Folder;
use crate::usage::Usage;

/// Reads the file of a volume.
pub type ReadFile = Arc<dyn Fn(&str) -> Result<VolumeFile, String> + Send + Sync>;

/// Gives the value of a secret.
pub type OpenSecret = Arc<dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync>;

/// See the module.
#[derive(Clone)]
pub struct Host {
    pub plugins: Plugins,
    pub records: Folder,
    pub read_file: ReadFile,
    pub open_secret: OpenSecret,
    pub deadlines: Deadlines,
    pub places: Places,
    /// The same for questions of how full volumes are: a step does not fail because one of them hangs.
    pub rooms: Places,
}

impl World for Host {
    fn set_plugins(&self, plugins: Vec<VolumePlugin>) {
        self.plugins.set(plugins);
    }

    fn perform(&self, job: Job, cancelled: Cancelled) -> BoxFuture<'static, Outcome> {
        let host = self.clone();
        Box::pin(async move {
            if let Some(record) = job.record {
                let folder = host.records.clone();
                // Without a deadline: a write that came later than the next one would bring an old state back.
                let written = tokio::task::spawn_blocking(move || folder.write(&record)).await;
                let written = written.unwrap_or_else(|error| Err(error.to_string()));
                if let Err(error) = written {
                    return Outcome::Failed(Failure::before(&error).of("record"));
                }
            }
            let done = host.step(&job.volume, job.step);
            tokio::select! {
                biased;
                done = done => done.unwrap_or_else(Outcome::Failed),
                () = cancelled.wait() => Outcome::Failed(Failure::after("its claim was given up")),
            }
        })
    }

    fn act(&self, action: VolumeAction, in_use: InUse) -> BoxFuture<'static, VolumeActionDone> {
        let host = self.clone();
        Box::pin(async move { Host::act(&host, action, in_use).await })
    }

    fn providers(&self) -> BoxFuture<'static, Vec<VolumeProvider>> {
        Box::pin(provider::all(self.plugins.all(), self.deadlines.identity))
    }

    fn statistics(
        &self,
        plugin: String,
        subjects: Vec<Subject>,
        at_once: usize,
    ) -> BoxFuture<'static, Vec<(String, VolumeStatistics)>> {
        let host = self.clone();
        Box::pin(async move { Host::statistics(&host, &plugin, subjects, at_once).await })
    }
}

impl Host {
    async fn step(&self, volume: &str, step: Step) -> Result<Outcome, Failure> {
        let done = Ok(Outcome::Done { note: None });
        match step {
            Step::Look => Ok(Outcome::Looked(self.look(volume).await?)),
            Step::Verify(place) => Ok(Outcome::Present(self.places.has(&place).await?)),
            Step::Attach { facts, usage } => Ok(Outcome::Attached(self.attach(&facts, &usage).await?)),
            Step::Stage { facts, context, stage, usage } => {
                self.stage(&facts, &context, &stage, &usage).await?;
                done
            }
            Step::Publish { facts, context, stage, place } => {
                self.publish(&facts, &context, stage.as_ref(), &place).await?;
                done
            }
            Step::Unpublish { of, place } => {
                self.unpublish(of, &place.target).await?;
                Ok(Outcome::Done { note: self.places.clear(&place.target).await? })
            }
            Step::Unstage { of, stage } => {
                self.unstage(of, &stage).await?;
                let note = self.places.clear(&stage).await?;
                // That of the volume, unless another usage of it has a stage there.
                if let Some(parent) = stage.as_path().parent() {
                    let _ = self.places.clear(&HostPath::new(parent)).await;
                }
                Ok(Outcome::Done { note })
            }
            Step::Detach { of, node } => {
                self.detach(volume, of, node).await?;
                done
            }
            Step::Record => done,
        }
    }

    pub async fn node(&self, plugin: &str) -> Result<VolumePlugin, Failure> {
        self.plugins.serving(plugin, Part::Node, self.deadlines.identity).await
    }

    pub async fn controller(&self, plugin: &str) -> Result<VolumePlugin, Failure> {
        self.plugins.serving(plugin, Part::Controller, self.deadlines.identity).await
    }

    /// The file of a volume.
    pub async fn read(&self, volume: &str) -> Result<VolumeFile, Failure> {
        let (read, name) = (Arc::clone(&self.read_file), volume.to_owned());
        let reading = tokio::task::spawn_blocking(move || read(&name));
        match tokio::time::timeout(self.deadlines.system, reading).await {
            Ok(Ok(read)) => read.map_err(|error| Failure::before(&error).last().of("file")),
            Ok(Err(error)) => Err(Failure::before(&error.to_string()).of("file")),
            Err(_) => {
                let within = self.deadlines.system.as_secs();
                let text = format!("the file of the volume cannot be read within {within} s");
                Err(Failure::before(&text).of("file"))
            }
        }
    }

    async fn look(&self, volume: &str) -> Result<Facts, Failure> {
        let file = self.read(volume).await?;
        let node = self.node(&file.plugin).await?;
        let its = provider::node_capabilities(&node, self.deadlines.identity).await;
        let stages = its
            .map_err(unchanged)?
            .any(|one| one == csi::node_service_capability::rpc::Type::StageUnstageVolume);
        let attaches = self.attaches(&file.plugin).await?;
        let node_id = match attaches {
            true => Some(self.node_id(&node).await?),
            false => None,
        };
        Ok(Facts { file, folder: folder_of(&node), stages, node: node_id })
    }

    /// Whether a controller has to attach volumes to nodes.
    async fn attaches(&self, plugin: &str) -> Result<bool, Failure> {
        if self.plugins.of(plugin, Part::Controller).is_empty() {
            return Ok(false);
        }
        let controller = self.controller(plugin).await?;
        let its = provider::controller_capabilities(&controller, self.deadlines.identity).await;
        Ok(its
            .map_err(|refusal| unchanged(refusal).of("ControllerGetCapabilities"))?
            .any(|one| one == csi::controller_service_capability::rpc::Type::PublishUnpublishVolume))
    }

    async fn node_id(&self, node: &VolumePlugin) -> Result<String, Failure> {
        let answer = call(node, self.deadlines.identity, csi::NodeGetInfoRequest {});
        Ok(answer.await.map_err(|refusal| unchanged(refusal).of("NodeGetInfo"))?.node_id)
    }

    async fn attach(
        &self,
        facts: &Facts,
        usage: &Usage,
    ) -> Result<std::collections::BTreeMap<String, String>, Failure> {
        let controller = self.controller(&facts.file.plugin).await?;
        let request = csi::ControllerPublishVolumeRequest {
            volume_id: facts.file.id.clone(),
            node_id: facts.node.clone().unwrap_or_default(),
            volume_capability: Some(capability(&facts.file, usage)),
            readonly: usage.read_only,
            secrets: self.secrets(&facts.file).await?,
            volume_context: opaque(&facts.file.context.0),
        };
        let answer = call(&controller, self.deadlines.step, request);
        Ok(answer.await?.publish_context.into_iter().collect())
    }

    async fn stage(
        &self,
        facts: &Facts,
        context: &Context,
        stage: &HostPath,
        usage: &Usage,
    ) -> Result<(), Failure> {
        let node = self.node(&facts.file.plugin).await?;
        let staging_target_path = seen_by(stage, &node)?;
        self.places.make(stage.clone()).await?;
        let request = csi::NodeStageVolumeRequest {
            volume_id: facts.file.id.clone(),
            publish_context: opaque(&context.0),
            staging_target_path,
            volume_capability: Some(capability(&facts.file, usage)),
            secrets: self.secrets(&facts.file).await?,
            volume_context: opaque(&facts.file.context.0),
        };
        let answer = call(&node, self.deadlines.step, request);
        Ok(answer.await.map(drop)?)
    }

    async fn publish(
        &self,
        facts: &Facts,
        context: &Context,
        stage: Option<&HostPath>,
        place: &Place,
    ) -> Result<(), Failure> {
        let node = self.node(&facts.file.plugin).await?;
        let target_path = seen_by(&place.target, &node)?;
        let staging_target_path = stage.map(|stage| seen_by(stage, &node)).transpose()?.unwrap_or_default();
        // The plugin makes the target itself.
        let parent = place.target.as_path().parent().unwrap_or(place.target.as_path());
        self.places.make(HostPath::new(parent)).await?;
        let request = csi::NodePublishVolumeRequest {
            volume_id: facts.file.id.clone(),
            publish_context: opaque(&context.0),
            staging_target_path,
            target_path,
            volume_capability: Some(capability(&facts.file, &place.usage)),
            readonly: place.usage.read_only,
            secrets: self.secrets(&facts.file).await?,
            volume_context: opaque(&facts.file.context.0),
        };
        let answer = call(&node, self.deadlines.step, request);
        answer.await.map_err(|refusal| {
            let unstaged = stage.is_some() && refusal.code == Some(Code::FailedPrecondition);
            let failure = Failure::from(refusal);
            Failure { unstaged, is_final: failure.is_final && !unstaged, ..failure }
        })?;
        if self.places.has(place).await? {
            return Ok(());
        }
        let what = match place.usage.attachment {
            Attachment::Filesystem => "nothing is mounted",
            Attachment::Block => "no block device is",
        };
        let text = format!(
            "the plugin reports success, but {what} at {}: its mounts do not reach the host",
            place.target
        );
        Err(Failure::after(&text).last())
    }

    async fn unpublish(&self, of: Provided, target: &HostPath) -> Result<(), Failure> {
        let node = self.node(&of.plugin).await?;
        let target_path = seen_by(target, &node)?;
        let request = csi::NodeUnpublishVolumeRequest { volume_id: of.id, target_path };
        undone(call(&node, self.deadlines.step, request).await)
    }

    async fn unstage(&self, of: Provided, stage: &HostPath) -> Result<(), Failure> {
        let node = self.node(&of.plugin).await?;
        let staging_target_path = seen_by(stage, &node)?;
        let request = csi::NodeUnstageVolumeRequest { volume_id: of.id, staging_target_path };
        undone(call(&node, self.deadlines.step, request).await)
    }

    async fn detach(&self, volume: &str, of: Provided, node_id: String) -> Result<(), Failure> {
        let controller = self.controller(&of.plugin).await?;
        let secrets = self.secrets_to_undo(volume, &of).await?;
        let request = csi::ControllerUnpublishVolumeRequest { volume_id: of.id, node_id, secrets };
        undone(call(&controller, self.deadlines.step, request).await)
    }
}

/// Of a question: the plugin has changed nothing, whatever it says.
fn unchanged(refusal: Refusal) -> Failure {
    Failure { reached: false, ..refusal.failure }
}

/// A plugin that knows no such volume, or has no such call, has nothing to undo.
pub fn undone<T>(answer: Result<T, Refusal>) -> Result<(), Failure> {
    match answer {
        Ok(_) | Err(Refusal { code: Some(Code::NotFound | Code::Unimplemented), .. }) => Ok(()),
        Err(refusal) => Err(refusal.failure),
    }
}

pub fn seen_by(path: &HostPath, plugin: &VolumePlugin) -> Result<String, Failure> {
    let seen = path.seen_by(plugin).map_err(|error| Failure::before(&error).last())?;
    Ok(seen.into_text())
}

pub fn opaque(map: &std::collections::BTreeMap<String, String>) -> std::collections::HashMap<String, String> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

pub fn capability(file: &VolumeFile, usage: &Usage) -> csi::VolumeCapability {
    let mode = match usage.access {
        Access::SingleNodeWriter => Mode::SingleNodeWriter,
        Access::SingleNodeReader => Mode::SingleNodeReaderOnly,
        Access::SingleNodeSingleWriter => Mode::SingleNodeSingleWriter,
        Access::SingleNodeMultiWriter => Mode::SingleNodeMultiWriter,
        Access::MultiNodeReader => Mode::MultiNodeReaderOnly,
        Access::MultiNodeSingleWriter => Mode::MultiNodeSingleWriter,
        Access::MultiNodeMultiWriter => Mode::MultiNodeMultiWriter,
    };
    let access_type = match usage.attachment {
        Attachment::Block => AccessType::Block(BlockVolume {}),
        Attachment::Filesystem => AccessType::Mount(MountVolume {
            fs_type: file.fs_type.clone(),
            mount_flags: usage.mount_flags.clone().unwrap_or_else(|| file.mount_flags.clone()),
            ..Default::default()
        }),
    };
    csi::VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(access_type),
    }
}
