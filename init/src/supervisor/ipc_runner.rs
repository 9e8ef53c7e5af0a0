//! System V and POSIX IPC that the user of a service has left: removed with its runs.

use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_runner::{RunContext, Runner, RunnerError};
use kelson_spec::ServiceSpec;

use super::provided_runner::{ProvidedRunner, Provision, ask};
use crate::task::Request;

/// The runner of a service, which removes what is left if the service asks for it.
pub(super) fn with_ipc_removed(
    inner: Box<dyn Runner>,
    spec: &Arc<ServiceSpec>,
    tasks: &Arc<dyn Launcher>,
) -> Box<dyn Runner> {
    match spec.user.as_ref().filter(|user| spec.remove_ipc && user.uid != 0) {
        None => inner,
        Some(user) => {
            let provision = LeftIpc { tasks: Arc::clone(tasks), uid: user.uid, has_run: false };
            Box::new(ProvidedRunner::new(inner, provision))
        }
    }
}

struct LeftIpc {
    tasks: Arc<dyn Launcher>,
    uid: u32,
    /// An earlier run may have left some.
    has_run: bool,
}

impl Provision for LeftIpc {
    async fn make(
        &mut self,
        _: &mut dyn Runner,
        is_made: bool,
        _: &mut RunContext,
    ) -> Result<(), RunnerError> {
        if !is_made && std::mem::replace(&mut self.has_run, true) {
            self.remove().await?;
        }
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        ask(&self.tasks, Request::RemoveIpc { uid: self.uid }).await
    }
}
