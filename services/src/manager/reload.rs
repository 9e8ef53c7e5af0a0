//! Services whose programs are to read their configuration again: each does what its key `reload` declares.

use futures_util::future::join_all;
use kelson_runner::BoxFuture;
use kelson_spec::features::{Feature, MissingFeature, OWN};
use kelson_spec::signal_name;

use super::{ActionResult, Manager, Outcome};
use crate::error::ServicesError;
use crate::model::State;
use crate::service_runner::task::{Command, Reloading};

impl Manager {
    /// Reloads services side by side, and waits for their hooks. Dropping the future kills the hooks that run.
    ///
    /// # Errors
    /// This build lacks it.
    pub fn reload_services<'a>(
        &'a self,
        names: &'a [String],
        asked_by: &'a str,
    ) -> Result<BoxFuture<'a, Vec<ActionResult>>, MissingFeature> {
        if const { OWN.has(Feature::Units) } {
            let names = self.reloaded_with(names);
            Ok(Box::pin(async move {
                join_all(names.iter().map(|name| self.reload_service(name, asked_by))).await
            }))
        } else {
            Err(MissingFeature(Feature::Units))
        }
    }

    /// These, and the running services that are to be reloaded with them.
    fn reloaded_with(&self, names: &[String]) -> Vec<String> {
        let mut all = names.to_vec();
        for (name, entry) in self.entries().iter() {
            let watch = entry.watch();
            let now = watch.borrow();
            let with = now.spec.as_deref().map_or(&[][..], |spec| &spec.reload.with);
            if now.state == State::Running
                && with.iter().any(|other| names.contains(other))
                && !names.iter().any(|known| **known == **name)
            {
                all.push(name.to_string());
            }
        }
        all
    }

    async fn reload_service(&self, name: &str, asked_by: &str) -> ActionResult {
        let spec = self.get(name).and_then(|snapshot| snapshot.spec);
        let declared = spec.is_some_and(|spec| spec.reload.signal.is_some() || !spec.reload.hooks.is_empty());
        let (outcome, message) = if !declared {
            let text =
                "its file has no reload; add one, such as reload: {signal: SIGHUP}, or use kelsonctl restart";
            (Outcome::Refused, format!("{text} {name}"))
        } else {
            match self.reload_run(name, asked_by).await {
                Ok(message) => {
                    self.service_event(name, &format!("reloaded ({message}): asked by {asked_by}"));
                    (Outcome::Done, message)
                }
                Err(message) => {
                    self.service_event(name, &format!("not reloaded: {message}"));
                    (Outcome::Failed, message)
                }
            }
        };
        ActionResult { name: name.to_owned(), outcome, message, snapshot: self.get(name) }
    }

    /// # Errors
    /// A sentence for the operator.
    async fn reload_run(&self, name: &str, asked_by: &str) -> Result<String, String> {
        let said = |error: ServicesError| error.to_string();
        let reloading = self.ask_task(name, |reply| Command::Reload { reply }).await.map_err(said)?;
        let Reloading { hooks, count, signal, run } = reloading;
        if let Some(failure) = hooks.await.into_iter().next() {
            return Err(failure);
        }
        let hooks = match count {
            0 => None,
            1 => Some("1 hook succeeded".to_owned()),
            count => Some(format!("{count} hooks succeeded")),
        };
        let sent = match signal {
            Some(signal) => {
                let asked_by = asked_by.to_owned();
                // A run that began meanwhile has read its configuration, and may not be ready for the signal.
                let command = |reply| Command::Signal { signal, run: Some(run), asked_by, reply };
                self.ask_task(name, command).await.map_err(said)?;
                Some(format!("{} sent", signal_name(signal)))
            }
            None => None,
        };
        Ok(hooks.into_iter().chain(sent).collect::<Vec<_>>().join(", "))
    }
}
