//! Whether containerd is ready, as its own health service says it.

use std::time::Duration;

use prost::Message;

use crate::calls::{Call, Kind};
use crate::{CallError, Containerd, Result};

/// A containerd that takes longer is not ready.
const DEADLINE: Duration = Duration::from_secs(2);
const SERVING: i32 = 1;

/// `grpc.health.v1.HealthCheckRequest` for the server as a whole.
#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}

impl Call for HealthCheckRequest {
    type Answer = HealthCheckResponse;
    const PATH: &'static str = "/grpc.health.v1.Health/Check";
    const KIND: Kind = Kind::Records;
}

impl Containerd {
    /// Asks whether it serves; answers within two seconds. Cancelled by dropping.
    pub async fn health(&self) -> Result<()> {
        match self.call_within(HealthCheckRequest { service: String::new() }, DEADLINE).await?.status {
            SERVING => Ok(()),
            _ => Err(CallError::Away(String::from("it says that it is not serving yet"))),
        }
    }
}
