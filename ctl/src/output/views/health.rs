//! `health`, as programs read it.

use kelson_proto::v1;
use kelson_proto::v1::health_report::State;
use serde::Serialize;

use super::faulty::FileWarning;
use crate::output::style::state_name;
use crate::output::time;

/// How the host, or a group, is.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Null: the host.
    pub group: Option<String>,
    /// `pending`, `healthy`, `unhealthy`, `failed`.
    pub state: &'static str,
    pub healthy: bool,
    pub since: Option<String>,
    pub message: String,
    /// How many services are asked.
    pub services: u32,
    /// How long all have been up, and all checks of the group have passed, without a break; null: not all do.
    pub steady_ms: Option<f64>,
    pub minimum_ms: f64,
    pub deadline_ms: f64,
    /// What is left of the deadline while it is pending.
    pub left_ms: Option<f64>,
    pub culprits: Vec<Culprit>,
    pub last_break: Option<Culprit>,
    /// Services with `required: false` that are not up and are meant to be.
    pub optional: Vec<Culprit>,
    /// Files with mistakes that change nothing of the state.
    pub warnings: Vec<FileWarning>,
    /// Of the host alone, and not with `--wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<Health>>,
}

/// A service that is not up and should be, or a check of the group that does not pass.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Culprit {
    /// Null: a check of the group.
    pub service: Option<String>,
    /// Null: a service.
    pub check: Option<String>,
    /// Null: a check of the group.
    pub state: Option<&'static str>,
    pub reason: String,
    pub since: Option<String>,
    pub lasts_ms: Option<f64>,
}

/// The word of each state.
pub fn word(state: State) -> &'static str {
    match state {
        State::Unspecified => "",
        State::Pending => "pending",
        State::Healthy => "healthy",
        State::Unhealthy => "unhealthy",
        State::Failed => "failed",
    }
}

impl From<&v1::Culprit> for Culprit {
    fn from(culprit: &v1::Culprit) -> Culprit {
        let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        Culprit {
            service: named(&culprit.service),
            check: named(&culprit.check),
            state: culprit.check.is_empty().then(|| state_name(culprit.state())),
            reason: culprit.reason.clone(),
            since: culprit.since.as_ref().map(time::rfc3339),
            lasts_ms: super::millis(&culprit.lasts),
        }
    }
}

impl From<&v1::HealthReport> for Health {
    fn from(report: &v1::HealthReport) -> Health {
        let millis = |span: &Option<prost_types::Duration>| {
            span.as_ref().map(|span| time::millis(time::duration(span)))
        };
        Health {
            group: Some(report.group.clone()).filter(|group| !group.is_empty()),
            state: word(report.state()),
            healthy: report.state() == State::Healthy,
            since: report.since.as_ref().map(time::rfc3339),
            message: report.message.clone(),
            services: report.services,
            steady_ms: millis(&report.steady),
            minimum_ms: millis(&report.minimum).unwrap_or_default(),
            deadline_ms: millis(&report.deadline).unwrap_or_default(),
            left_ms: millis(&report.left),
            culprits: report.culprits.iter().map(Culprit::from).collect(),
            last_break: report.last_break.as_ref().map(Culprit::from),
            optional: report.optional.iter().map(Culprit::from).collect(),
            warnings: report.warnings.iter().map(FileWarning::from).collect(),
            groups: None,
        }
    }
}
