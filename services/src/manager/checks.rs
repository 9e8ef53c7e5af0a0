//! How the checks of a service stand.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{Kind, Manager};
use crate::model::CheckReport;
use crate::service_runner::task::Command;

/// A service answers at once; one that does not is broken, and its status is shown without its checks.
const ANSWER: Duration = Duration::from_secs(5);

impl Manager {
    /// The checks of a service with their last results; empty where it has none or is not known.
    pub async fn checks(&self, name: &str) -> Vec<CheckReport> {
        let mailbox = match self.entries().get(name).map(|entry| &entry.kind) {
            Some(Kind::Live(handle)) => handle.mailbox.clone(),
            Some(Kind::Faulty(_) | Kind::ExternalService(_)) | None => return Vec::new(),
        };
        let (reply, answer) = oneshot::channel();
        if mailbox.send(Command::Checks { reply }).is_err() {
            return Vec::new();
        }
        match tokio::time::timeout(ANSWER, answer).await {
            Ok(Ok(reports)) => reports,
            _ => Vec::new(),
        }
    }
}
