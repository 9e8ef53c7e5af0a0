//! `grpc`: `grpc.health.v1.Health/Check`, on a connection of its own.

use std::net::SocketAddr;

use kelson_spec::service::GrpcProbe;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::answer::{Answer, Deadline, Unaskable};
use super::call::{Call, Failure, Status};
use super::stream::Bytes;
use super::tls::{Tls, connect};

const METHOD: (&str, &str) = ("grpc.health.v1", "/grpc.health.v1.Health/Check");
/// Codes of gRPC with a meaning of their own here.
const NOT_FOUND: i32 = 5;
const UNIMPLEMENTED: i32 = 12;

/// The call that the check makes.
pub struct Check {
    call: Call,
    service: String,
    tls: Option<Tls>,
}

impl Check {
    pub fn new(asks: &GrpcProbe, address: SocketAddr) -> Result<Check, Unaskable> {
        let scheme = if asks.tls.is_some() { "https" } else { "http" };
        let authority = match &asks.host {
            Some(host) => format!("{host}:{}", address.port()),
            None => address.to_string(),
        };
        let request = HealthCheckRequest { service: asks.service.clone() };
        let call = Call::new(scheme, authority, METHOD, &request)?;
        let tls = match &asks.tls {
            Some(tls) => Some(Tls::new(tls, asks.host.as_deref(), address, b"h2")?),
            None => None,
        };
        Ok(Check { call, service: asks.service.clone(), tls })
    }

    pub async fn ask(&self, address: SocketAddr, deadline: Deadline) -> Result<Answer, Answer> {
        let stream = connect(address, self.tls.as_ref(), deadline).await?;
        deadline.bounds("answer", self.talk(stream)).await
    }

    async fn talk(&self, stream: impl Bytes) -> Result<Answer, Answer> {
        let answer: HealthCheckResponse = self.call.over(stream).await.map_err(|failure| match failure {
            Failure::Status(Status { code: NOT_FOUND, .. }) => self.unknown(),
            Failure::Status(Status { code: UNIMPLEMENTED, .. }) => {
                Answer::fails("UNIMPLEMENTED: the server has no grpc.health.v1")
            }
            Failure::Status(status) => status.into(),
            Failure::Other(answer) => answer,
        })?;
        Err(match answer.status() {
            ServingStatus::Serving => return Ok(Answer::passes("SERVING")),
            ServingStatus::NotServing => Answer::fails("NOT_SERVING"),
            ServingStatus::Unknown => Answer::fails("UNKNOWN"),
            ServingStatus::ServiceUnknown => self.unknown(),
        })
    }

    fn unknown(&self) -> Answer {
        Answer::fails(format!("the server knows no service {:?}", self.service))
    }
}
