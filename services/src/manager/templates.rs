//! Services whose files from templates have changed while they run.

use std::sync::Arc;

use kelson_spec::templates::OnChange;

use super::{ActionResult, Manager, Outcome};
use crate::model::State;

/// Who asks for a reload.
const CHANGE: &str = "a change of its templates";

impl Manager {
    /// Gives a service that runs the files that its templates make now, and does what they say if one of them is another one.
    ///
    /// # Errors
    /// A sentence for the operator. It is to be tried again.
    pub(crate) async fn renew_templates(&self, service: &Arc<str>) -> Result<(), String> {
        let spec = self.get(service).filter(|now| now.runs).and_then(|now| now.spec);
        let Some(spec) = spec else { return Ok(()) };
        let runners = &self.inner.host_context.runners;
        let Some(renewed) = runners.renew_templates(&spec) else { return Ok(()) };
        let names = [service.to_string()];
        let results = match renewed.await.map_err(|error| error.to_string())? {
            None => return Ok(()),
            Some(OnChange::None) => {
                self.service_event(service, "its files from templates have changed");
                Vec::new()
            }
            Some(OnChange::Reload) => match self.reload_services(&names, CHANGE) {
                Ok(reload) => reload.await,
                Err(error) => return Err(error.to_string()),
            },
            Some(OnChange::Restart) => {
                self.service_event(service, "its files from templates have changed, so it restarts");
                self.restart(&names, false).await
            }
        };
        let is_failure = |result: &ActionResult| matches!(result.outcome, Outcome::Refused | Outcome::Failed);
        // A program that is not ready may have read the file before. Otherwise an event has said what failed.
        let is_early = self.get(service).is_some_and(|now| now.runs && now.state == State::Starting);
        if let Some(failed) = results.into_iter().find(is_failure).filter(|_| is_early) {
            return Err(failed.message);
        }
        match runners.settle_templates(&spec) {
            Some(settled) => settled.await.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}
