//! A storage plugin to learn from: each volume is a file system in a file of `LOOP_FOLDER`.
//!
//! It answers the calls of the Container Storage Interface at the socket `CSI_ENDPOINT`. Each call can be repeated: Kelson
//! repeats one whose answer it has not seen. The tools of util-linux and e2fsprogs do the work.

mod files;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use csi::controller_server::{Controller, ControllerServer};
use csi::identity_server::{Identity, IdentityServer};
use csi::node_server::{Node, NodeServer};
use csi::volume_capability::AccessType;
use csi::volume_content_source::Type as Source;
use csi::{controller_service_capability as controller, node_service_capability as node};
use files::Files;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

#[allow(clippy::all)]
mod csi {
    tonic::include_proto!("csi.v1");
}

type Answer<T> = Result<Response<T>, Status>;

/// Where Kelson sets none.
const ENDPOINT: &str = "unix:///csi/csi.sock";
#[derive(Clone)]
struct Plugin {
    files: Files,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let variable = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    let endpoint = variable("CSI_ENDPOINT", ENDPOINT);
    let socket = endpoint.strip_prefix("unix://").ok_or("CSI_ENDPOINT: write unix:// and a path")?;
    let plugin = Plugin { files: Files::new(variable("LOOP_FOLDER", "/var/lib/loop-volumes").into()).await? };
    // Of an earlier run.
    let _ = std::fs::remove_file(socket);
    let connections = UnixListenerStream::new(UnixListener::bind(socket)?);
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    Server::builder()
        .add_service(IdentityServer::new(plugin.clone()))
        .add_service(ControllerServer::new(plugin.clone()))
        .add_service(NodeServer::new(plugin))
        .serve_with_incoming_shutdown(connections, async move { _ = terminated.recv().await })
        .await?;
    Ok(())
}

#[tonic::async_trait]
impl Identity for Plugin {
    async fn get_plugin_info(
        &self,
        _: Request<csi::GetPluginInfoRequest>,
    ) -> Answer<csi::GetPluginInfoResponse> {
        Ok(Response::new(csi::GetPluginInfoResponse {
            name: "loop.kelson.example".to_owned(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: HashMap::new(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<csi::GetPluginCapabilitiesRequest>,
    ) -> Answer<csi::GetPluginCapabilitiesResponse> {
        use csi::plugin_capability::{Service, Type, service};
        let has_controller = Type::Service(Service { r#type: service::Type::ControllerService.into() });
        let capabilities = vec![csi::PluginCapability { r#type: Some(has_controller) }];
        Ok(Response::new(csi::GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _: Request<csi::ProbeRequest>) -> Answer<csi::ProbeResponse> {
        Ok(Response::new(csi::ProbeResponse { ready: Some(true) }))
    }
}

#[tonic::async_trait]
impl Controller for Plugin {
    async fn controller_get_capabilities(
        &self,
        _: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Answer<csi::ControllerGetCapabilitiesResponse> {
        use controller::rpc::Type::{CreateDeleteSnapshot, CreateDeleteVolume, ExpandVolume, ListSnapshots};
        let capability = |kind: controller::rpc::Type| csi::ControllerServiceCapability {
            r#type: Some(controller::Type::Rpc(controller::Rpc { r#type: kind.into() })),
        };
        let its = [CreateDeleteVolume, ExpandVolume, CreateDeleteSnapshot, ListSnapshots];
        let capabilities = its.map(capability).to_vec();
        Ok(Response::new(csi::ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Answer<csi::CreateVolumeResponse> {
        let request = request.into_inner();
        only_file_systems(request.volume_capabilities.iter())?;
        let source = request.volume_content_source;
        let snapshot = match source.as_ref().and_then(|source| source.r#type.as_ref()) {
            None => None,
            Some(Source::Snapshot(snapshot)) => Some(snapshot.snapshot_id.as_str()),
            Some(Source::Volume(_)) => return Err(Status::invalid_argument("no volume is made of another")),
        };
        let asked = size(request.capacity_range.as_ref());
        let size = self.files.create(&request.name, asked, snapshot).await?;
        let volume = csi::Volume {
            volume_id: request.name,
            capacity_bytes: size.cast_signed(),
            content_source: source,
            ..csi::Volume::default()
        };
        Ok(Response::new(csi::CreateVolumeResponse { volume: Some(volume) }))
    }

    async fn delete_volume(
        &self,
        request: Request<csi::DeleteVolumeRequest>,
    ) -> Answer<csi::DeleteVolumeResponse> {
        self.files.delete(&request.into_inner().volume_id).await?;
        Ok(Response::new(csi::DeleteVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Answer<csi::ValidateVolumeCapabilitiesResponse> {
        let request = request.into_inner();
        self.files.find(&request.volume_id)?;
        let mut answer = csi::ValidateVolumeCapabilitiesResponse::default();
        match only_file_systems(request.volume_capabilities.iter()) {
            Ok(()) => {
                answer.confirmed = Some(csi::validate_volume_capabilities_response::Confirmed {
                    volume_capabilities: request.volume_capabilities,
                    volume_context: request.volume_context,
                    ..Default::default()
                });
            }
            Err(status) => status.message().clone_into(&mut answer.message),
        }
        Ok(Response::new(answer))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Answer<csi::ControllerExpandVolumeResponse> {
        let request = request.into_inner();
        let wanted = size(request.capacity_range.as_ref())
            .ok_or_else(|| Status::invalid_argument("capacity_range: say how large it is to be"))?;
        let size = self.files.expand(&request.volume_id, wanted).await?;
        Ok(Response::new(csi::ControllerExpandVolumeResponse {
            capacity_bytes: size.cast_signed(),
            node_expansion_required: true,
        }))
    }

    async fn create_snapshot(
        &self,
        request: Request<csi::CreateSnapshotRequest>,
    ) -> Answer<csi::CreateSnapshotResponse> {
        let request = request.into_inner();
        let made = self.files.snapshot(&request.source_volume_id, &request.name).await?;
        Ok(Response::new(csi::CreateSnapshotResponse { snapshot: Some(made) }))
    }

    async fn delete_snapshot(
        &self,
        request: Request<csi::DeleteSnapshotRequest>,
    ) -> Answer<csi::DeleteSnapshotResponse> {
        self.files.delete_snapshot(&request.into_inner().snapshot_id)?;
        Ok(Response::new(csi::DeleteSnapshotResponse {}))
    }

    /// All at once: there are few.
    async fn list_snapshots(
        &self,
        request: Request<csi::ListSnapshotsRequest>,
    ) -> Answer<csi::ListSnapshotsResponse> {
        let csi::ListSnapshotsRequest { source_volume_id, snapshot_id, .. } = request.into_inner();
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let mut all = self.files.snapshots()?;
        all.retain(|one| is(&source_volume_id, &one.source_volume_id) && is(&snapshot_id, &one.snapshot_id));
        let entry = |one| csi::list_snapshots_response::Entry { snapshot: Some(one) };
        let entries = all.into_iter().map(entry).collect();
        Ok(Response::new(csi::ListSnapshotsResponse { entries, ..Default::default() }))
    }
}

#[tonic::async_trait]
impl Node for Plugin {
    async fn node_get_info(&self, _: Request<csi::NodeGetInfoRequest>) -> Answer<csi::NodeGetInfoResponse> {
        let name = nix::unistd::gethostname().map_err(|error| Status::internal(error.to_string()))?;
        let node_id = name.to_string_lossy().into_owned();
        Ok(Response::new(csi::NodeGetInfoResponse { node_id, ..csi::NodeGetInfoResponse::default() }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Answer<csi::NodeGetCapabilitiesResponse> {
        use node::rpc::Type::{ExpandVolume, GetVolumeStats, StageUnstageVolume};
        let capability = |kind: node::rpc::Type| csi::NodeServiceCapability {
            r#type: Some(node::Type::Rpc(node::Rpc { r#type: kind.into() })),
        };
        let capabilities = [StageUnstageVolume, GetVolumeStats, ExpandVolume].map(capability).to_vec();
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities }))
    }

    /// Attaches the file to a loop device, makes a file system where there is none, and mounts it.
    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Answer<csi::NodeStageVolumeResponse> {
        let request = request.into_inner();
        only_file_systems(request.volume_capability.iter())?;
        let (kind, flags) = mount_of(request.volume_capability.as_ref());
        let staging = PathBuf::from(request.staging_target_path);
        let stage =
            move |files: Files| async move { files.stage(&request.volume_id, &staging, &kind, &flags).await };
        self.files.step(stage).await?;
        Ok(Response::new(csi::NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Answer<csi::NodeUnstageVolumeResponse> {
        let request = request.into_inner();
        let staging = PathBuf::from(request.staging_target_path);
        self.files
            .step(move |files| async move { files.unstage(&request.volume_id, &staging).await })
            .await?;
        Ok(Response::new(csi::NodeUnstageVolumeResponse {}))
    }

    /// Binds the stage to the target.
    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Answer<csi::NodePublishVolumeResponse> {
        let request = request.into_inner();
        only_file_systems(request.volume_capability.iter())?;
        let (from, to) = (PathBuf::from(&request.staging_target_path), PathBuf::from(&request.target_path));
        let publish = move |files: Files| async move {
            files.publish(&request.volume_id, &from, &to, request.readonly).await
        };
        self.files.step(publish).await?;
        Ok(Response::new(csi::NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Answer<csi::NodeUnpublishVolumeResponse> {
        let target = PathBuf::from(request.into_inner().target_path);
        self.files.step(move |files| async move { files.unpublish(&target).await }).await?;
        Ok(Response::new(csi::NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Answer<csi::NodeGetVolumeStatsResponse> {
        let request = request.into_inner();
        let usage = files::usage(Path::new(&request.volume_path))?;
        Ok(Response::new(csi::NodeGetVolumeStatsResponse { usage, ..Default::default() }))
    }

    async fn node_expand_volume(
        &self,
        request: Request<csi::NodeExpandVolumeRequest>,
    ) -> Answer<csi::NodeExpandVolumeResponse> {
        let id = request.into_inner().volume_id;
        let capacity_bytes =
            self.files.step(move |files| async move { files.grow(&id).await }).await?.cast_signed();
        Ok(Response::new(csi::NodeExpandVolumeResponse { capacity_bytes }))
    }
}

/// In bytes; `None`: nobody says.
fn size(range: Option<&csi::CapacityRange>) -> Option<u64> {
    let range = range?;
    [range.required_bytes, range.limit_bytes].into_iter().find(|bytes| *bytes > 0).map(i64::cast_unsigned)
}

fn only_file_systems<'c>(
    mut capabilities: impl Iterator<Item = &'c csi::VolumeCapability>,
) -> Result<(), Status> {
    match capabilities.any(|capability| matches!(capability.access_type, Some(AccessType::Block(_)))) {
        true => Err(Status::invalid_argument("a volume here is a file system and no device")),
        false => Ok(()),
    }
}

/// The kind of the file system, and the options of its mount.
fn mount_of(capability: Option<&csi::VolumeCapability>) -> (String, Vec<String>) {
    let mount = match capability.and_then(|capability| capability.access_type.clone()) {
        Some(AccessType::Mount(mount)) => mount,
        _ => csi::volume_capability::MountVolume::default(),
    };
    let kind = if mount.fs_type.is_empty() { "ext4".to_owned() } else { mount.fs_type };
    (kind, mount.mount_flags)
}
