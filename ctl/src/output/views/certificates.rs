//! `gen` and `config`, as programs read them.

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

/// One line of `config contexts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    pub name: String,
    pub endpoint: String,
    pub current: bool,
    /// Of its certificate, as is all that follows.
    pub common_name: Option<String>,
    pub role: Option<&'static str>,
    pub until: Option<String>,
    /// Why it cannot be used.
    pub trouble: Option<String>,
}
