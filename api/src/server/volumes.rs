//! The service Volumes: the volumes of plugins that services use, and the plugins.

use kelson_proto::v1;
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
        _: Request<v1::ListVolumesRequest>,
    ) -> Result<Response<v1::ListVolumesResponse>, Status> {
        let volumes = self.volumes.list().await.map_err(silent)?;
        Ok(Response::new(v1::ListVolumesResponse { volumes }))
    }

    async fn providers(
        &self,
        _: Request<v1::ListVolumeProvidersRequest>,
    ) -> Result<Response<v1::ListVolumeProvidersResponse>, Status> {
        let providers = self.volumes.providers().await.map_err(silent)?;
        Ok(Response::new(v1::ListVolumeProvidersResponse { providers }))
    }
}

fn silent(error: NoAnswer) -> Status {
    Status::unavailable(error.to_string())
}
