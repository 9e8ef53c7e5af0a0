//! `time`, as programs read it.

use serde::Serialize;

/// The clock of a host, and how good it is.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Clock {
    pub time: Option<String>,
    pub uptime_ms: f64,
    pub synchronized: bool,
    /// Null, as the next: nobody keeps it right.
    pub max_error_ms: Option<f64>,
    pub estimated_error_ms: Option<f64>,
    /// What is being corrected; negative: the clock is ahead.
    pub offset_ms: Option<f64>,
    /// The clock of the hardware; null: there is none that can be read.
    pub hardware: Option<String>,
    pub source: String,
    /// How far it is ahead of the caller's clock; null, as the next: it is the caller's.
    pub difference_ms: Option<f64>,
    /// How far that may be off.
    pub uncertainty_ms: Option<f64>,
}
