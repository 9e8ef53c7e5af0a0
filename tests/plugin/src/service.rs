//! The three services of the interface.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tonic::{Request, Response, Status};

use crate::csi::controller_server::Controller;
use crate::csi::identity_server::Identity;
use crate::csi::node_server::Node;
use crate::csi::volume_capability::AccessType;
use crate::csi::{self, VolumeCapability};
use crate::faults::Faults;
use crate::mount;
use crate::snapshots::Snapshots;

type Answer<T> = Result<Response<T>, Status>;

/// See the library.
#[derive(Debug, Clone)]
pub struct Plugin {
    folder: PathBuf,
    faults: Faults,
}

fn failed(error: io::Error) -> Status {
    Status::internal(error.to_string())
}

fn is_block(capability: &Option<VolumeCapability>) -> bool {
    let access = capability.as_ref().and_then(|capability| capability.access_type.as_ref());
    matches!(access, Some(AccessType::Block(_)))
}

impl Plugin {
    pub fn new(folder: PathBuf) -> Plugin {
        fs::create_dir_all(folder.join("volumes")).expect("the folder of the test");
        Plugin { faults: Faults::new(&folder), folder }
    }

    fn has(&self, word: &str) -> bool {
        let words =
            fs::read_to_string(self.folder.join("capabilities")).unwrap_or_else(|_| "stage".to_owned());
        words.split_whitespace().any(|one| one == word)
    }

    /// Whether the call has the password.
    fn admits(&self, secrets: &HashMap<String, String>) -> Result<(), Status> {
        match fs::read_to_string(self.folder.join("secret")) {
            Ok(password) if secrets.get("password") != Some(&password) => {
                Err(Status::unauthenticated("the password is missing or wrong"))
            }
            _ => Ok(()),
        }
    }

    /// The folder that is bound in the place of the volume.
    fn volume(&self, id: &str) -> io::Result<String> {
        let folder = self.folder.join("volumes").join(id);
        fs::create_dir_all(&folder)?;
        Ok(folder.to_str().expect("UTF-8").to_owned())
    }

    async fn call<T>(
        &self,
        name: &str,
        about: &[&str],
        effect: impl FnOnce() -> Result<T, Status>,
    ) -> Answer<T> {
        let mut calls =
            File::options().append(true).create(true).open(self.folder.join("calls")).expect("calls");
        let line = std::iter::once(name).chain(about.iter().copied()).collect::<Vec<_>>().join(" ") + "\n";
        calls.write_all(line.as_bytes()).expect("calls");
        self.faults.around(name, effect).await.map(Response::new)
    }
}

#[tonic::async_trait]
impl Identity for Plugin {
    async fn get_plugin_info(
        &self,
        _: Request<csi::GetPluginInfoRequest>,
    ) -> Answer<csi::GetPluginInfoResponse> {
        self.call("GetPluginInfo", &[], || {
            Ok(csi::GetPluginInfoResponse {
                name: "fault.kelson.test".to_owned(),
                vendor_version: "1.0".to_owned(),
                ..Default::default()
            })
        })
        .await
    }

    async fn probe(&self, _: Request<csi::ProbeRequest>) -> Answer<csi::ProbeResponse> {
        self.call("Probe", &[], || Ok(csi::ProbeResponse { ready: None })).await
    }
}

#[tonic::async_trait]
impl Controller for Plugin {
    async fn controller_get_capabilities(
        &self,
        _: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Answer<csi::ControllerGetCapabilitiesResponse> {
        use csi::controller_service_capability::{Rpc, Type, rpc};
        use rpc::Type::{CreateDeleteSnapshot, CreateDeleteVolume, ListSnapshots, PublishUnpublishVolume};
        let all = [
            ("attach", PublishUnpublishVolume),
            ("create", CreateDeleteVolume),
            ("snapshot", CreateDeleteSnapshot),
            ("snapshot", ListSnapshots),
        ];
        let its = all.into_iter().filter(|(word, _)| self.has(word));
        let capability = |(_, kind): (&str, rpc::Type)| csi::ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })),
        };
        let capabilities = its.map(capability).collect();
        self.call("ControllerGetCapabilities", &[], || {
            Ok(csi::ControllerGetCapabilitiesResponse { capabilities })
        })
        .await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<csi::ControllerPublishVolumeRequest>,
    ) -> Answer<csi::ControllerPublishVolumeResponse> {
        let request = request.into_inner();
        let publish_context = [("device".to_owned(), request.volume_id.clone())].into();
        self.call("ControllerPublishVolume", &[&request.volume_id, &request.node_id], || {
            self.admits(&request.secrets)?;
            Ok(csi::ControllerPublishVolumeResponse { publish_context })
        })
        .await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<csi::ControllerUnpublishVolumeRequest>,
    ) -> Answer<csi::ControllerUnpublishVolumeResponse> {
        let request = request.into_inner();
        self.call("ControllerUnpublishVolume", &[&request.volume_id, &request.node_id], || {
            self.admits(&request.secrets)?;
            Ok(csi::ControllerUnpublishVolumeResponse {})
        })
        .await
    }

    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Answer<csi::CreateVolumeResponse> {
        use csi::volume_content_source::Type;
        let request = request.into_inner();
        let volume_id = format!("id-{}", request.name);
        self.call("CreateVolume", &[&volume_id], || {
            self.admits(&request.secrets)?;
            self.volume(&volume_id).map_err(failed)?;
            let content_source = request.volume_content_source.clone();
            if let Some(Type::Snapshot(from)) = content_source.clone().and_then(|source| source.r#type) {
                Snapshots(&self.folder).restore(&from.snapshot_id, &volume_id)?;
            }
            let volume = csi::Volume { volume_id: volume_id.clone(), content_source, ..Default::default() };
            Ok(csi::CreateVolumeResponse { volume: Some(volume) })
        })
        .await
    }

    async fn create_snapshot(
        &self,
        request: Request<csi::CreateSnapshotRequest>,
    ) -> Answer<csi::CreateSnapshotResponse> {
        let request = request.into_inner();
        self.call("CreateSnapshot", &[&request.source_volume_id, &request.name], || {
            self.admits(&request.secrets)?;
            let made = Snapshots(&self.folder).create(&request.name, &request.source_volume_id)?;
            Ok(csi::CreateSnapshotResponse { snapshot: Some(made) })
        })
        .await
    }

    async fn delete_snapshot(
        &self,
        request: Request<csi::DeleteSnapshotRequest>,
    ) -> Answer<csi::DeleteSnapshotResponse> {
        let request = request.into_inner();
        self.call("DeleteSnapshot", &[&request.snapshot_id], || {
            self.admits(&request.secrets)?;
            Snapshots(&self.folder).delete(&request.snapshot_id)?;
            Ok(csi::DeleteSnapshotResponse {})
        })
        .await
    }

    async fn list_snapshots(
        &self,
        request: Request<csi::ListSnapshotsRequest>,
    ) -> Answer<csi::ListSnapshotsResponse> {
        let request = request.into_inner();
        self.call("ListSnapshots", &[&request.source_volume_id], || {
            self.admits(&request.secrets)?;
            Ok(Snapshots(&self.folder).list(&request))
        })
        .await
    }
}

#[tonic::async_trait]
impl Node for Plugin {
    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Answer<csi::NodeGetCapabilitiesResponse> {
        use csi::node_service_capability::{Rpc, Type, rpc};
        let all = [
            ("stage", rpc::Type::StageUnstageVolume),
            ("statistics", rpc::Type::GetVolumeStats),
            ("condition", rpc::Type::VolumeCondition),
        ];
        let its = all.into_iter().filter(|(word, _)| self.has(word));
        let capability = |(_, kind): (_, rpc::Type)| csi::NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })),
        };
        let capabilities = its.map(capability).collect();
        self.call("NodeGetCapabilities", &[], || Ok(csi::NodeGetCapabilitiesResponse { capabilities })).await
    }

    async fn node_get_info(&self, _: Request<csi::NodeGetInfoRequest>) -> Answer<csi::NodeGetInfoResponse> {
        self.call("NodeGetInfo", &[], || {
            Ok(csi::NodeGetInfoResponse {
                node_id: "node-1".to_owned(),
                max_volumes_per_node: 7,
                ..Default::default()
            })
        })
        .await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Answer<csi::NodeGetVolumeStatsResponse> {
        use csi::volume_usage::Unit;
        let request = request.into_inner();
        self.call("NodeGetVolumeStats", &[&request.volume_id, &request.volume_path], || {
            if !Path::new(&request.volume_path).exists() {
                return Err(Status::not_found("nothing is there"));
            }
            let usage = |unit: Unit, total, used, available| csi::VolumeUsage {
                unit: unit.into(),
                total,
                used,
                available,
            };
            let condition = fs::read_to_string(self.folder.join("condition")).unwrap_or_default();
            let condition = csi::VolumeCondition { abnormal: !condition.is_empty(), message: condition };
            Ok(csi::NodeGetVolumeStatsResponse {
                usage: vec![usage(Unit::Bytes, 1000, 250, 700), usage(Unit::Inodes, 100, 10, 90)],
                volume_condition: Some(condition),
            })
        })
        .await
    }

    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Answer<csi::NodeStageVolumeResponse> {
        let request = request.into_inner();
        self.call("NodeStageVolume", &[&request.volume_id, &request.staging_target_path], || {
            self.admits(&request.secrets)?;
            if self.has("attach") && request.publish_context.get("device") != Some(&request.volume_id) {
                return Err(Status::invalid_argument("the context of the controller is missing"));
            }
            let from = self.volume(&request.volume_id).map_err(failed)?;
            if !is_block(&request.volume_capability) {
                mount::bind(&from, &request.staging_target_path, false).map_err(failed)?;
            }
            Ok(csi::NodeStageVolumeResponse {})
        })
        .await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Answer<csi::NodeUnstageVolumeResponse> {
        let request = request.into_inner();
        self.call("NodeUnstageVolume", &[&request.volume_id, &request.staging_target_path], || {
            mount::unmount(&request.staging_target_path).map_err(failed)?;
            Ok(csi::NodeUnstageVolumeResponse {})
        })
        .await
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Answer<csi::NodePublishVolumeResponse> {
        let request = request.into_inner();
        self.call("NodePublishVolume", &[&request.volume_id, &request.target_path], || {
            self.admits(&request.secrets)?;
            if is_block(&request.volume_capability) {
                mount::device(&request.target_path).map_err(failed)?;
                return Ok(csi::NodePublishVolumeResponse {});
            }
            let from = match self.has("stage") {
                true if !mount::is_mounted(&request.staging_target_path).map_err(failed)? => {
                    return Err(Status::failed_precondition("the volume is not staged"));
                }
                true => request.staging_target_path.clone(),
                false => self.volume(&request.volume_id).map_err(failed)?,
            };
            fs::create_dir_all(&request.target_path).map_err(failed)?;
            mount::bind(&from, &request.target_path, request.readonly).map_err(failed)?;
            Ok(csi::NodePublishVolumeResponse {})
        })
        .await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Answer<csi::NodeUnpublishVolumeResponse> {
        let request = request.into_inner();
        self.call("NodeUnpublishVolume", &[&request.volume_id, &request.target_path], || {
            mount::unmount(&request.target_path).map_err(failed)?;
            let target = Path::new(&request.target_path);
            // Never more than what it has made.
            let _ = if target.is_dir() { fs::remove_dir(target) } else { fs::remove_file(target) };
            Ok(csi::NodeUnpublishVolumeResponse {})
        })
        .await
    }
}
