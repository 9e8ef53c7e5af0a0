//! The configurations of the host.

use std::collections::BTreeMap;

use kelson_proto::v1::configuration_server::Configuration;
use kelson_proto::v1::*;
use tonic::{Request, Response, Status};

use super::{Answer, Shared};

/// The configurations, and the answers about them.
#[derive(Default)]
pub struct Kept {
    pub files: BTreeMap<u64, Vec<ConfigurationFile>>,
    pub history: HistoryResponse,
    /// The answer to `apply`.
    pub applied: ApplyResponse,
    /// `apply` and `confirm` are refused, in these words.
    pub refusal: Option<&'static str>,
}

impl Kept {
    fn current(&self) -> u64 {
        self.history.generations.iter().find(|kept| kept.current).map_or(0, |kept| kept.number)
    }
}

#[tonic::async_trait]
impl Configuration for Shared {
    async fn apply(&self, request: Request<ApplyRequest>) -> Answer<ApplyResponse> {
        let request = request.into_inner();
        let what = match request.rollback_to {
            Some(generation) => format!("generation {generation}"),
            None => request.files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(" "),
        };
        let dry = if request.dry_run { " dry" } else { "" };
        let trial =
            request.auto_rollback.map_or_else(String::new, |time| format!(" trial={}s", time.seconds));
        let base = request.base.map_or_else(String::new, |base| format!(" base={base}"));
        let message = request.message;
        self.note(format!("apply {what}{base}{dry}{trial} {message}").trim_end().to_owned())?;
        let kept = &self.state().kept;
        match kept.refusal {
            Some(why) => Err(Status::failed_precondition(why)),
            None => Ok(Response::new(kept.applied.clone())),
        }
    }

    async fn confirm(&self, request: Request<ConfirmRequest>) -> Answer<ConfirmResponse> {
        let wanted = request.into_inner().generation;
        self.note(format!("confirm {wanted:?}"))?;
        let kept = &self.state().kept;
        match kept.refusal {
            Some(why) => Err(Status::failed_precondition(why)),
            None => Ok(Response::new(ConfirmResponse { generation: kept.current() })),
        }
    }

    async fn get(&self, request: Request<GetConfigurationRequest>) -> Answer<GetConfigurationResponse> {
        let GetConfigurationRequest { generation: wanted, sources } = request.into_inner();
        self.note(format!("get {wanted:?}{}", if sources { " with sources" } else { "" }))?;
        let kept = &self.state().kept;
        let generation = wanted.unwrap_or_else(|| kept.current());
        match kept.files.get(&generation) {
            Some(files) => Ok(Response::new(GetConfigurationResponse { generation, files: files.clone() })),
            None => Err(Status::failed_precondition(format!("there is no generation {generation}"))),
        }
    }

    async fn history(&self, _: Request<HistoryRequest>) -> Answer<HistoryResponse> {
        self.note("history".to_owned())?;
        Ok(Response::new(self.state().kept.history.clone()))
    }
}
