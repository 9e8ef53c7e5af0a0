//! Services after the machine was resumed from a snapshot: each gets what its key `resumed` declares.

use futures_util::future::join_all;
use kelson_proto::v1::ResumedStep;
use kelson_proto::v1::resumed_step::Outcome;
use kelson_spec::service::Resumed;
use tokio::time::{Instant, timeout_at};

use super::{Manager, Outcome as Action};
use crate::model::Snapshot;
use crate::service_runner::task::Command;

impl Manager {
    /// Notifies all services that run, side by side, and one-shots that are to run again. One that has not ended by the
    /// deadline is late: its hooks are killed, a restart continues.
    pub async fn resumed(&self, asked_by: &str, deadline: Instant) -> Vec<ResumedStep> {
        let services = self.list();
        let steps = services.iter().filter(|service| !service.builtin).filter_map(|service| {
            let spec = service.spec.as_ref()?;
            let again = service.finished && spec.resumed.restart;
            (service.runs || again).then(|| self.resumed_service(service, &spec.resumed, asked_by, deadline))
        });
        join_all(steps).await
    }

    async fn resumed_service(
        &self,
        service: &Snapshot,
        resumed: &Resumed,
        asked_by: &str,
        deadline: Instant,
    ) -> ResumedStep {
        let name = service.name.to_string();
        let (outcome, message) = if *resumed == Resumed::default() {
            (Outcome::NotDeclared, String::new())
        } else {
            match timeout_at(deadline, self.renew(&name, resumed, asked_by)).await {
                Ok(Ok(message)) => (Outcome::Done, message),
                Ok(Err(message)) => (Outcome::Failed, message),
                Err(_) => (Outcome::Late, "it had not ended at the deadline".to_owned()),
            }
        };
        if matches!(outcome, Outcome::Failed | Outcome::Late) {
            self.service_event(&name, &format!("after the resume from a snapshot: {message}"));
        }
        ResumedStep { name, is_service: true, outcome: outcome.into(), message }
    }

    /// # Errors
    /// A sentence for the operator.
    async fn renew(&self, name: &str, resumed: &Resumed, asked_by: &str) -> Result<String, String> {
        if resumed.restart {
            let results = self.restart(&[name.to_owned()], true).await;
            let result = results.into_iter().next().ok_or("it was removed")?;
            return match result.outcome {
                Action::Done => Ok(format!("restarted: {}", result.message)),
                _ => Err(result.message),
            };
        }
        let command = |reply| Command::Resumed { asked_by: asked_by.to_owned(), reply };
        let hooks = self.ask_task(name, command).await.map_err(|error| error.to_string())?;
        let failures = hooks.await;
        if !failures.is_empty() {
            return Err(failures.join("; "));
        }
        let signal = resumed.signal.map(|signal| format!("{} sent", kelson_spec::signal_name(signal)));
        let hooks = match resumed.hooks.len() {
            0 => None,
            1 => Some("1 hook succeeded".to_owned()),
            count => Some(format!("{count} hooks succeeded")),
        };
        Ok(signal.into_iter().chain(hooks).collect::<Vec<_>>().join(", "))
    }
}
