//! What `events --timeline` is for programs.

use serde::Serialize;

use crate::output::style::state_name;
use crate::output::time::rfc3339;
use crate::output::timeline;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// When 0 was; null without any event.
    pub begun: Option<String>,
    pub services: Vec<Lane>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    pub name: String,
    pub states: Vec<Span>,
    /// When it was to stop and waited for those that need it.
    pub waited: Vec<Hold>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    pub state: &'static str,
    pub from_ms: f64,
    /// Null: it goes on.
    pub to_ms: Option<f64>,
    pub message: String,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    pub from_ms: f64,
    pub to_ms: f64,
    #[serde(rename = "for")]
    pub by: Vec<String>,
}

impl From<&timeline::Timeline> for Timeline {
    fn from(timeline: &timeline::Timeline) -> Timeline {
        let services = timeline.lanes.iter().map(|lane| Lane {
            name: lane.name.clone(),
            states: lane
                .spans
                .iter()
                .map(|span| Span {
                    state: state_name(span.state),
                    from_ms: round(span.from),
                    to_ms: span.to.is_finite().then(|| round(span.to)),
                    message: span.message.clone(),
                })
                .collect(),
            waited: lane
                .holds
                .iter()
                .map(|hold| Hold { from_ms: round(hold.from), to_ms: round(hold.to), by: hold.by.clone() })
                .collect(),
        });
        Timeline { begun: timeline.begun.as_ref().map(rfc3339), services: services.collect() }
    }
}

/// Microseconds are as much as a clock tells.
fn round(millis: f64) -> f64 {
    (millis * 1000.0).round() / 1000.0
}
