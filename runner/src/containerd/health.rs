//! Whether containerd is ready, as its own health service says it.

use std::time::Duration;

use prost::Message;

use super::client::Containerd;
use super::error::ContainerdError;

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
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

impl Containerd {
    /// Asks whether it serves; answers within two seconds. Cancelled by dropping.
    ///
    /// # Errors
    /// A sentence, when it does not.
    pub async fn health(&self) -> Result<(), ContainerdError> {
        let request = HealthCheckRequest { service: String::new() };
        let answer: HealthCheckResponse =
            self.call("/grpc.health.v1.Health/Check", request, DEADLINE).await?;
        if answer.status == SERVING {
            Ok(())
        } else {
            Err(ContainerdError::Away(String::from("it says that it is not serving yet")))
        }
    }
}
