//! The service Timers: the services that a schedule starts, and when.

use kelson_proto::v1;
use kelson_proto::v1::timers_server;
use kelson_services::timers::Timers;
use tonic::{Request, Response, Status};

pub struct TimersApi {
    pub timers: &'static Timers,
}

#[tonic::async_trait]
impl timers_server::Timers for TimersApi {
    async fn list(
        &self,
        _: Request<v1::ListTimersRequest>,
    ) -> Result<Response<v1::ListTimersResponse>, Status> {
        Ok(Response::new(v1::ListTimersResponse { timers: self.timers.list() }))
    }
}
