//! The service Secrets: values go in, and never out.

use kelson_proto::v1;
use kelson_proto::v1::secrets_server::Secrets;
use kelson_services::ServicesError;
use kelson_services::host::{Host, HostRequest, Secret, SecretRow};
use kelson_services::spec::secrets::LONGEST_VALUE;
use tokio::sync::oneshot;
use tonic::{Request, Response, Status};

use super::audit::record;
use super::model;
use super::services::{about, caller, ending};

pub struct SecretsApi {
    pub host: Host,
}

impl SecretsApi {
    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, ServicesError>>) -> HostRequest,
    ) -> Result<T, Status> {
        let (reply, answer) = oneshot::channel();
        self.host.requests.send(request(reply)).await.map_err(ending)?;
        answer.await.map_err(ending)?.map_err(model::status)
    }
}

fn secret(row: SecretRow) -> v1::Secret {
    let SecretRow { stored, services, outdated } = row;
    let mut secret = v1::Secret { name: stored.name, services, outdated, ..v1::Secret::default() };
    match stored.found {
        Ok(about) => {
            secret.size = about.size;
            secret.set_at = Some(about.set_at.into());
            secret.author = about.author;
            secret.source = about.source;
        }
        Err(trouble) => secret.trouble = trouble,
    }
    secret
}

#[tonic::async_trait]
#[deny(clippy::missing_trait_methods, reason = "a call without a body here would be refused as unknown")]
impl Secrets for SecretsApi {
    async fn set(
        &self,
        request: Request<v1::SetSecretRequest>,
    ) -> Result<Response<v1::SetSecretResponse>, Status> {
        let (asked_by, record) = (caller(&request), record(&request));
        let v1::SetSecretRequest { name, value } = request.into_inner();
        let value = Secret::new(value);
        about(record.as_deref(), &name);
        if value.bytes().len() > LONGEST_VALUE {
            return Err(Status::invalid_argument(format!("a secret has at most {LONGEST_VALUE} bytes")));
        }
        let outdated = self.ask(|reply| HostRequest::SetSecret { name, value, asked_by, reply }).await?;
        Ok(Response::new(v1::SetSecretResponse { outdated }))
    }

    async fn list(
        &self,
        _: Request<v1::ListSecretsRequest>,
    ) -> Result<Response<v1::ListSecretsResponse>, Status> {
        let rows = self.ask(|reply| HostRequest::ListSecrets { reply }).await?;
        Ok(Response::new(v1::ListSecretsResponse { secrets: rows.into_iter().map(secret).collect() }))
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveSecretRequest>,
    ) -> Result<Response<v1::RemoveSecretResponse>, Status> {
        let (asked_by, record) = (caller(&request), record(&request));
        let v1::RemoveSecretRequest { name, force } = request.into_inner();
        about(record.as_deref(), &name);
        self.ask(|reply| HostRequest::RemoveSecret { name, force, asked_by, reply }).await?;
        Ok(Response::new(v1::RemoveSecretResponse {}))
    }
}
