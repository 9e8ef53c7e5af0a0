//! `gen`, as programs read them.

use serde::Serialize;

/// What `gen` made.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Made {
    /// What was written.
    pub files: Vec<String>,
    pub common_name: String,
    /// Null: it is no certificate of a client.
    pub role: Option<&'static str>,
    /// The names and addresses of a machine.
    pub hosts: Vec<String>,
    pub until: String,
    /// Null: no file of contexts was written.
    pub context: Option<String>,
}
