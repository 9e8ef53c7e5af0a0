//! The hooks of a run, as its task gives them out.

use std::sync::Arc;

use kelson_runner::BoxFuture;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::Reload;

use super::Core;
use super::commands::Reloading;
use crate::error::ServicesError;
use crate::service_runner::hooks::Hooks;

impl Core {
    pub(super) fn hooks(&self) -> Hooks {
        Hooks {
            logs: Arc::clone(&self.host_context.logs),
            spec: Arc::clone(&self.spec),
            run: self.service.run,
            pid: self.service.pid().filter(|_| self.spec.container().is_none()),
            exit: self.service.exit,
        }
    }

    /// The removal of what it registers, and the `preStop` hooks; the texts tell of what failed.
    pub(super) fn pre_stop(&self) -> BoxFuture<'static, Vec<String>> {
        let hooks = self.hooks().pre_stop(self.executor_of_run());
        let withdrawal = match const { OWN.has(Feature::Fleet) } {
            true => self.host_context.runners.withdraw(&self.spec),
            false => None,
        };
        let Some(withdrawal) = withdrawal else { return Box::pin(hooks) };
        Box::pin(async move {
            let mut failures: Vec<String> = withdrawal.await.into_iter().collect();
            failures.extend(hooks.await);
            failures
        })
    }

    /// Sends the signal of `resumed` to the run; its hooks are left to the caller, who may drop them.
    pub(super) fn resumed(&self, asked_by: &str) -> Result<BoxFuture<'static, Vec<String>>, ServicesError> {
        let executor = self.executor()?;
        if let Some(signal) = self.spec.resumed.signal {
            self.signal(signal, asked_by)?;
        }
        Ok(Box::pin(self.hooks().resumed(executor)))
    }

    /// The hooks of `reload` for the run, which the caller may drop, and what comes after them.
    pub(super) fn reload(&self) -> Result<Reloading, ServicesError> {
        let executor = self.executor()?;
        let Reload { hooks, signal, .. } = &self.spec.reload;
        let (count, signal, run) = (hooks.len(), *signal, self.service.run);
        Ok(Reloading { hooks: Box::pin(self.hooks().reload(executor)), count, signal, run })
    }

    /// Starts the `postStart` hooks of a run that is ready, and drops those of a run that is ending: asked after each
    /// step, as the checks are.
    pub(super) fn mind_hooks(&mut self) {
        let Some(active) = self.service.active() else {
            self.post_start = None;
            return;
        };
        let begun = self.post_start_of == self.service.run;
        if active.ready() && !begun && !self.spec.hooks.post_start.is_empty() {
            self.post_start_of = self.service.run;
            self.post_start = Some(Box::pin(self.hooks().post_start(self.executor_of_run())));
        }
    }
}
