//! What an operator asks of a volume itself: to make it, to delete it, to make it larger; and of its snapshots.

use kelson_proto::v1::volume_action::Action;
use kelson_proto::v1::volume_action_done::Answer;
use kelson_proto::v1::{
    CreateVolumeRequest, CreateVolumeResponse, ExpandVolumeResponse, VolumeAction, VolumeActionDone,
    VolumeStep,
};
use kelson_spec::volume_file::VolumeFile;

use crate::csi::v1 as csi;
use crate::csi::v1::controller_service_capability::rpc::Type as Capability;
use crate::job::{Failure, InUse};
use crate::plugins::call;
use crate::provider::{controller_capabilities, node_capabilities};
use crate::usage::Usage;
use crate::world::{Host, capability, opaque, seen_by, undone};

/// The volume that an action is about, and the call that it makes.
pub fn about(action: &Action) -> (&str, &'static str) {
    match action {
        Action::Create(request) => (&request.name, "CreateVolume"),
        Action::Delete(request) => (&request.name, "DeleteVolume"),
        Action::Expand(request) => (&request.name, "ControllerExpandVolume"),
        Action::CreateSnapshot(request) => (&request.volume, "CreateSnapshot"),
        Action::DeleteSnapshot(request) => (&request.volume, "DeleteSnapshot"),
        Action::ListSnapshots(request) => (&request.volume, "ListSnapshots"),
        Action::Status(request) => (&request.name, "status"),
    }
}

impl Host {
    /// Does it. Each call can be repeated, as the one who asks may have missed the answer.
    pub async fn act(&self, action: VolumeAction, in_use: InUse) -> VolumeActionDone {
        let VolumeAction { number, action } = action;
        let Some(action) = action else {
            return VolumeActionDone { number, failure: None, answer: None };
        };
        let (volume, step) = about(&action);
        let mut described = VolumeStep {
            volume: volume.to_owned(),
            step: step.to_owned(),
            attempt: 1,
            ..VolumeStep::default()
        };
        let done = async {
            let file = match plugin(&action).filter(|_| volume.is_empty()) {
                // Of no volume: what a file says beside the plugin is not needed.
                Some(plugin) => Ok(VolumeFile { plugin: plugin.to_owned(), ..VolumeFile::default() }),
                None => self.read(volume).await,
            };
            if let Action::Status(_) = action {
                return Ok(Some(Answer::Status(self.status(file, &in_use).await?)));
            }
            let file = file?;
            described.plugin.clone_from(&file.plugin);
            described.volume_id.clone_from(&file.id);
            match &action {
                Action::Create(request) => Ok(Some(Answer::Created(self.create(&file, request).await?))),
                Action::Delete(_) => self.delete(&file, &in_use).await.map(|()| None),
                Action::Expand(request) => {
                    let size = self.expand(&file, request.size, &in_use).await?;
                    Ok(Some(Answer::Expanded(ExpandVolumeResponse { size })))
                }
                Action::CreateSnapshot(request) => {
                    Ok(Some(Answer::Snapshot(self.create_snapshot(&file, request).await?)))
                }
                Action::DeleteSnapshot(request) => {
                    self.delete_snapshot(&file, &request.id).await.map(|()| None)
                }
                Action::ListSnapshots(request) => {
                    Ok(Some(Answer::Snapshots(self.list_snapshots(&file, &request.token).await?)))
                }
                Action::Status(_) => Ok(None),
            }
        };
        match done.await {
            Ok(answer) => VolumeActionDone { number, failure: None, answer },
            Err(Failure { step, text, .. }) => {
                described.step = step.map_or(described.step, str::to_owned);
                described.failure = text;
                VolumeActionDone { number, failure: Some(described), answer: None }
            }
        }
    }

    async fn create(
        &self,
        file: &VolumeFile,
        asked: &CreateVolumeRequest,
    ) -> Result<CreateVolumeResponse, Failure> {
        let request = csi::CreateVolumeRequest {
            name: file.name.clone(),
            capacity_range: (asked.size > 0).then(|| at_least(asked.size)),
            volume_capabilities: vec![capability(file, &Usage::default())],
            parameters: opaque(&file.parameters.0),
            secrets: self.secrets(file).await?,
            volume_content_source: source_of(&asked.snapshot),
            ..Default::default()
        };
        if !asked.snapshot.is_empty() {
            // A plugin without snapshots might make an empty volume.
            self.controller_with(&file.plugin, Capability::CreateDeleteSnapshot).await?;
        }
        let controller = self.controller_with(&file.plugin, Capability::CreateDeleteVolume).await?;
        let answer = call(&controller, self.deadlines.action, request);
        let made = answer.await?.volume.unwrap_or_default();
        let context: std::collections::BTreeMap<String, String> = made.volume_context.into_iter().collect();
        let matches = made.volume_id == file.id && context == file.context.0;
        Ok(CreateVolumeResponse {
            id: made.volume_id,
            size: u64::try_from(made.capacity_bytes).unwrap_or_default(),
            context: context.into_iter().collect(),
            matches,
        })
    }

    async fn delete(&self, file: &VolumeFile, in_use: &InUse) -> Result<(), Failure> {
        if !in_use.services.is_empty() {
            let text = format!("it is in use by {}: stop them first", in_use.services.join(", "));
            return Err(Failure::before(&text).last());
        }
        if in_use.is_left {
            let text = "what its last use has left is not undone: see kelsonctl volumes list";
            return Err(Failure::before(text).last());
        }
        let controller = self.controller_with(&file.plugin, Capability::CreateDeleteVolume).await?;
        let request =
            csi::DeleteVolumeRequest { volume_id: file.id.clone(), secrets: self.secrets(file).await? };
        undone(call(&controller, self.deadlines.action, request).await)
    }

    /// Returns its size in bytes.
    async fn expand(&self, file: &VolumeFile, size: u64, in_use: &InUse) -> Result<u64, Failure> {
        let controller = self.controller_with(&file.plugin, Capability::ExpandVolume).await?;
        let request = csi::ControllerExpandVolumeRequest {
            volume_id: file.id.clone(),
            capacity_range: Some(at_least(size)),
            secrets: self.secrets(file).await?,
            ..Default::default()
        };
        let answer = call(&controller, self.deadlines.action, request);
        let expanded = answer.await?;
        if expanded.node_expansion_required {
            self.expand_here(file, size, in_use).await.map_err(|failure| failure.of("NodeExpandVolume"))?;
        }
        Ok(u64::try_from(expanded.capacity_bytes).unwrap_or(size))
    }

    /// Where it is not mounted here, its plugin makes the file system larger when it mounts it.
    async fn expand_here(&self, file: &VolumeFile, size: u64, in_use: &InUse) -> Result<(), Failure> {
        let Some(place) = &in_use.place else { return Ok(()) };
        let node = self.node(&file.plugin).await?;
        let expands = csi::node_service_capability::rpc::Type::ExpandVolume;
        if !node_capabilities(&node, self.deadlines.identity).await?.any(|one| one == expands) {
            return Ok(());
        }
        let stage = in_use.stage.as_ref().map(|stage| seen_by(stage, &node)).transpose()?;
        let request = csi::NodeExpandVolumeRequest {
            volume_id: file.id.clone(),
            volume_path: seen_by(&place.target, &node)?,
            capacity_range: Some(at_least(size)),
            staging_target_path: stage.unwrap_or_default(),
            volume_capability: Some(capability(file, &place.usage)),
            secrets: self.secrets(file).await?,
        };
        let answer = call(&node, self.deadlines.action, request);
        Ok(answer.await.map(drop)?)
    }

    /// The controller of a plugin, which can do this.
    pub async fn controller_with(
        &self,
        plugin: &str,
        wanted: Capability,
    ) -> Result<kelson_proto::v1::VolumePlugin, Failure> {
        let controller = self.controller(plugin).await?;
        let its = controller_capabilities(&controller, self.deadlines.identity).await;
        let can = its
            .map_err(|refusal| Failure::from(refusal).of("ControllerGetCapabilities"))?
            .any(|one| one == wanted);
        let name = wanted.as_str_name();
        can.then_some(controller)
            .ok_or_else(|| Failure::before(&format!("the plugin does not have {name}")).last())
    }
}

/// The plugin that an action names itself.
fn plugin(action: &Action) -> Option<&str> {
    let named = match action {
        Action::DeleteSnapshot(request) => &request.plugin,
        Action::ListSnapshots(request) => &request.plugin,
        _ => return None,
    };
    Some(named.as_str()).filter(|named| !named.is_empty())
}

fn source_of(snapshot: &str) -> Option<csi::VolumeContentSource> {
    use csi::volume_content_source::{SnapshotSource, Type};
    let snapshot_id = Some(snapshot).filter(|id| !id.is_empty())?.to_owned();
    Some(csi::VolumeContentSource { r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id })) })
}

fn at_least(bytes: u64) -> csi::CapacityRange {
    csi::CapacityRange { required_bytes: i64::try_from(bytes).unwrap_or(i64::MAX), limit_bytes: 0 }
}
