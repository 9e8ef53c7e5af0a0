//! The service Configuration: the files of the host, applied from outside.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use kelson_proto::v1;
use kelson_proto::v1::configuration_server::Configuration;
use kelson_services::host::{Apply, Host, HostRequest};
use kelson_services::spec::applied::{About, Change, Source, TreeFile};
use kelson_sys::text::harmless;
use tokio::sync::oneshot;
use tonic::{Request, Response, Status};

use super::audit::record;
use super::model;
use super::services::{about, caller, ending, span};

/// How long a configuration may be on trial.
const TRIAL: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(24 * 60 * 60);
/// Longest message of the history, in characters.
const MESSAGE_MAX: usize = 500;

pub struct ConfigurationApi {
    pub host: Host,
}

impl ConfigurationApi {
    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, kelson_services::ServicesError>>) -> HostRequest,
    ) -> Result<T, Status> {
        let (reply, answer) = oneshot::channel();
        self.host.requests.send(request(reply)).await.map_err(ending)?;
        answer.await.map_err(ending)?.map_err(model::status)
    }
}

fn source(request: &mut v1::ApplyRequest) -> Result<Source, Status> {
    let files = std::mem::take(&mut request.files);
    match (request.rollback_to, files.is_empty()) {
        (Some(generation), true) => Ok(Source::Generation(generation)),
        (Some(_), false) => Err(Status::invalid_argument("send files or a generation, not both")),
        (None, true) => Err(Status::invalid_argument("send the files of the configuration, or a generation")),
        (None, false) => {
            let files = files.into_iter();
            Ok(Source::Files(files.map(|file| TreeFile { name: file.name, content: file.content }).collect()))
        }
    }
}

fn trial(time: prost_types::Duration) -> Result<Duration, Status> {
    let time = span(time, "the time until the rollback")?;
    match TRIAL.contains(&time) {
        true => Ok(time),
        false => {
            Err(Status::invalid_argument("the time until the rollback is 5 s at least and a day at most"))
        }
    }
}

#[tonic::async_trait]
#[deny(clippy::missing_trait_methods, reason = "a call without a body here would be refused as unknown")]
impl Configuration for ConfigurationApi {
    async fn apply(&self, request: Request<v1::ApplyRequest>) -> Result<Response<v1::ApplyResponse>, Status> {
        let (author, record) = (caller(&request), record(&request));
        let mut request = request.into_inner();
        let message: String = harmless(&request.message, None).take(MESSAGE_MAX).collect();
        let dry = if request.dry_run { "dry run of " } else { "" };
        let what = match request.rollback_to {
            Some(generation) => format!("{dry}generation {generation}"),
            None => format!("{dry}{} files", request.files.len()),
        };
        about(record.as_deref(), format!("{what} {message}").trim_end());
        let source = source(&mut request)?;
        let trial = request.auto_rollback.map(trial).transpose()?;
        if !request.dry_run {
            tracing::info!("{author} asks to apply {what}");
        }
        let apply = Apply {
            change: Change {
                source,
                base: request.base,
                dry_run: request.dry_run,
                on_trial: false,
                about: About { author, message, time: SystemTime::now() },
            },
            trial,
        };
        let answer = self.ask(|reply| HostRequest::Apply { apply, reply }).await?;
        if let Some(record) = record {
            record.outcome(&match (
                answer.applied,
                answer.mistakes.iter().filter(|found| !found.warning).count(),
            ) {
                (true, _) => format!("generation {}, before {}", answer.generation, answer.before),
                (false, mistakes) => format!("{mistakes} mistakes, nothing changed"),
            });
        }
        Ok(Response::new(answer))
    }

    async fn confirm(
        &self,
        request: Request<v1::ConfirmRequest>,
    ) -> Result<Response<v1::ConfirmResponse>, Status> {
        let (asked_by, record) = (caller(&request), record(&request));
        let generation = request.into_inner().generation;
        let request = |reply| HostRequest::Confirm { generation, asked_by, reply };
        let generation = self.ask(request).await?;
        about(record.as_deref(), &format!("generation {generation}"));
        Ok(Response::new(v1::ConfirmResponse { generation }))
    }

    async fn get(
        &self,
        request: Request<v1::GetConfigurationRequest>,
    ) -> Result<Response<v1::GetConfigurationResponse>, Status> {
        let v1::GetConfigurationRequest { generation, sources } = request.into_inner();
        self.ask(|reply| HostRequest::Configuration { generation, sources, reply }).await.map(Response::new)
    }

    async fn history(&self, _: Request<v1::HistoryRequest>) -> Result<Response<v1::HistoryResponse>, Status> {
        self.ask(|reply| HostRequest::History { reply }).await.map(Response::new)
    }
}
