//! The main process of a service that forks, by the file that names it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_runner::{RunContext, Runner, RunnerError, Running};
use kelson_spec::ServiceSpec;

use super::provided_runner::{ProvidedRunner, Provision};
use super::secrets::CALL;
use crate::task::{self, Request};

/// How long one helper waits for the file. Another one follows until the service is ready, or its start has taken too long.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Between two looks at a file that names a process of somebody else: the service has not written it yet.
const PAUSE: Duration = Duration::from_millis(100);

/// The runner of a service, which finds its main process by its PID file if it has one.
pub(super) fn with_pid_file(
    inner: Box<dyn Runner>,
    spec: &Arc<ServiceSpec>,
    tasks: &Arc<dyn Launcher>,
) -> Box<dyn Runner> {
    match &spec.pid_file {
        None => inner,
        Some(path) => {
            Box::new(ProvidedRunner::new(inner, PidFile { tasks: Arc::clone(tasks), path: path.clone() }))
        }
    }
}

struct PidFile {
    tasks: Arc<dyn Launcher>,
    path: PathBuf,
}

impl Provision for PidFile {
    async fn make(&mut self, _: &mut dyn Runner, _: bool, _: &mut RunContext) -> Result<(), RunnerError> {
        Ok(())
    }

    /// Ends with the process: a file that is missing or old may still be written. The start of the service has its deadline.
    async fn find_main(&mut self, inner: &mut dyn Runner) -> Option<Result<Running, RunnerError>> {
        loop {
            let request = Request::ReadPidFile { path: self.path.clone(), patience: TIMEOUT };
            let answer = task::run(&*self.tasks, &request, CALL).await;
            let pid = answer.ok().and_then(|text| text.parse::<i32>().ok()).filter(|pid| *pid > 0);
            if let Some(pid) = pid
                && let Ok(running) = inner.find_main(Some(pid)).await
            {
                return Some(Ok(running));
            }
            // Nothing that is left could write it.
            if inner.is_empty() {
                return Some(inner.find_main(None).await);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        Ok(())
    }
}
