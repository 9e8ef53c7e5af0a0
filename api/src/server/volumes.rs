//! The service Volumes: the volumes of plugins that services use, and the plugins.

use kelson_proto::v1;
use kelson_proto::v1::volume_action::Action;
use kelson_proto::v1::volume_action_done::Answer;
use kelson_proto::v1::volumes_server;
use kelson_services::volumes::{NoAnswer, Volumes};
use tonic::{Request, Response, Status};

pub struct VolumesApi {
    pub volumes: Volumes,
}

#[tonic::async_trait]
impl volumes_server::Volumes for VolumesApi {
    async fn list(
        &self,
        request: Request<v1::ListVolumesRequest>,
    ) -> Result<Response<v1::ListVolumesResponse>, Status> {
        let listed = match request.into_inner().statistics {
            true => self.volumes.list_with_statistics().await,
            false => self.volumes.list().await,
        };
        let volumes = listed.map_err(silent)?;
        Ok(Response::new(v1::ListVolumesResponse { volumes }))
    }

    async fn status(
        &self,
        request: Request<v1::VolumeStatusRequest>,
    ) -> Result<Response<v1::VolumeStatusResponse>, Status> {
        let request = request.into_inner();
        let name = request.name.clone();
        let Some(Answer::Status(mut status)) = self.act(Action::Status(request)).await? else {
            return Err(senseless());
        };
        status.uses = self.volumes.list().await.map_err(silent)?;
        status.uses.retain(|volume| volume.name == name);
        Ok(Response::new(status))
    }

    async fn providers(
        &self,
        _: Request<v1::ListVolumeProvidersRequest>,
    ) -> Result<Response<v1::ListVolumeProvidersResponse>, Status> {
        let providers = self.volumes.providers().await.map_err(silent)?;
        Ok(Response::new(v1::ListVolumeProvidersResponse { providers }))
    }

    async fn create(
        &self,
        request: Request<v1::CreateVolumeRequest>,
    ) -> Result<Response<v1::CreateVolumeResponse>, Status> {
        match self.act(Action::Create(request.into_inner())).await? {
            Some(Answer::Created(created)) => Ok(Response::new(created)),
            _ => Err(senseless()),
        }
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteVolumeRequest>,
    ) -> Result<Response<v1::DeleteVolumeResponse>, Status> {
        self.act(Action::Delete(request.into_inner())).await?;
        Ok(Response::new(v1::DeleteVolumeResponse {}))
    }

    async fn expand(
        &self,
        request: Request<v1::ExpandVolumeRequest>,
    ) -> Result<Response<v1::ExpandVolumeResponse>, Status> {
        match self.act(Action::Expand(request.into_inner())).await? {
            Some(Answer::Expanded(expanded)) => Ok(Response::new(expanded)),
            _ => Err(senseless()),
        }
    }

    async fn create_snapshot(
        &self,
        request: Request<v1::CreateSnapshotRequest>,
    ) -> Result<Response<v1::CreateSnapshotResponse>, Status> {
        match self.act(Action::CreateSnapshot(request.into_inner())).await? {
            Some(Answer::Snapshot(made)) => {
                Ok(Response::new(v1::CreateSnapshotResponse { snapshot: Some(made) }))
            }
            _ => Err(senseless()),
        }
    }

    async fn delete_snapshot(
        &self,
        request: Request<v1::DeleteSnapshotRequest>,
    ) -> Result<Response<v1::DeleteSnapshotResponse>, Status> {
        self.act(Action::DeleteSnapshot(request.into_inner())).await?;
        Ok(Response::new(v1::DeleteSnapshotResponse {}))
    }

    async fn list_snapshots(
        &self,
        request: Request<v1::ListSnapshotsRequest>,
    ) -> Result<Response<v1::ListSnapshotsResponse>, Status> {
        match self.act(Action::ListSnapshots(request.into_inner())).await? {
            Some(Answer::Snapshots(page)) => Ok(Response::new(page)),
            _ => Err(senseless()),
        }
    }
}

impl VolumesApi {
    async fn act(&self, action: Action) -> Result<Option<Answer>, Status> {
        self.volumes.act(action).await.map_err(|error| Status::failed_precondition(error.message))
    }
}

fn senseless() -> Status {
    Status::internal("kelson-volumes answered something that was not asked")
}

fn silent(error: NoAnswer) -> Status {
    Status::unavailable(error.to_string())
}
