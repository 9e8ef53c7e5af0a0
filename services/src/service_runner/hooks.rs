//! The hooks of a service: commands before, beside and after the main process of a run.
//!
//! `pre` and `post` are runs of the service's own runner with another command, so that they are confined, limited and
//! logged as the main process is. `postStart` and `preStop` run beside it, as checks do.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{ExecRequest, Executor, Exit, Leash, Outputs, RunContext, Runner, RunnerError, StopPlan};
use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::Hook;
use tokio::time::{Instant, timeout_at};

use super::host_context::LogPipes;
use super::table::Input;
use super::words;
use crate::error::ServicesError;

/// Ends whatever a hook has left.
pub const KILL: StopPlan = StopPlan { signal: libc::SIGKILL, timeout: Duration::ZERO };

/// The parts of its service that a hook needs, so that no future borrows the task.
pub struct Hooks {
    /// Where their output goes.
    pub logs: Arc<dyn LogPipes>,
    pub spec: Arc<ServiceSpec>,
    pub run: u64,
    /// The main process while it runs, where the service's processes see it under this number.
    pub pid: Option<i32>,
    /// How the main process ended, where it has.
    pub exit: Option<Exit>,
}

/// Why a hook in place of the main process has failed, and how it ended if it did.
struct Failure {
    error: RunnerError,
    exit: Option<Exit>,
}

impl Hooks {
    /// The `pre` hooks, up to the first that fails and may not, or says that the service is not to start.
    pub(super) async fn pre(self, runner: &mut Box<dyn Runner>) -> Input {
        let mut failures = Vec::new();
        for hook in &self.spec.hooks.pre {
            match self.run(runner, "pre", hook, Vec::new()).await {
                Ok(()) => {}
                Err(Failure { exit: Some(exit @ Exit::Status(1..=254)), .. })
                    if const { OWN.has(Feature::Units) } && hook.condition =>
                {
                    return Input::PreSkips(format!("its hook {} {exit}", program(hook)));
                }
                Err(failure) if hook.may_fail => failures.push(failure.error.message),
                Err(failure) => return Input::PreDone(Err(failure.error)),
            }
        }
        Input::PreDone(Ok(failures))
    }

    /// The `post` hooks, all of them; tells of those that failed.
    pub async fn post(self, runner: &mut Box<dyn Runner>) -> Vec<String> {
        let environment = match self.exit {
            Some(Exit::Status(status)) => vec![("KELSON_EXIT_STATUS".to_owned(), status.to_string())],
            Some(Exit::Signal { signal, .. }) => vec![("KELSON_EXIT_SIGNAL".to_owned(), signal.to_string())],
            Some(Exit::Lost) | None => Vec::new(),
        };
        self.all(runner, ("post", &self.spec.hooks.post), environment).await
    }

    /// The `undo` hooks of a one-shot, all of them; tells of those that failed.
    pub(super) async fn undo(self, runner: &mut Box<dyn Runner>) -> Vec<String> {
        match runner.open().await {
            Ok(()) => self.all(runner, ("undo", &self.spec.hooks.undo), Vec::new()).await,
            Err(error) => vec![format!("its undo hooks did not run: {}", error.message)],
        }
    }

    /// Commands in place of the main process, one after the other; tells of those that failed.
    async fn all(
        &self,
        runner: &mut Box<dyn Runner>,
        (kind, hooks): (&str, &[Hook]),
        environment: Vec<(String, String)>,
    ) -> Vec<String> {
        let mut failures = Vec::new();
        for hook in hooks {
            let failure = self.run(runner, kind, hook, environment.clone()).await.err();
            failures.extend(failure.map(|failure| failure.error.message));
        }
        failures
    }

    /// The `preStop` hooks, all of them; tells of those that failed.
    pub async fn pre_stop(self, executor: Result<Arc<dyn Executor>, ServicesError>) -> Vec<String> {
        self.beside(&executor, "preStop", &self.spec.hooks.pre_stop).await
    }

    /// The `postStart` hooks, all of them; tells of those that failed.
    pub(super) async fn post_start(self, executor: Result<Arc<dyn Executor>, ServicesError>) -> Vec<String> {
        self.beside(&executor, "postStart", &self.spec.hooks.post_start).await
    }

    /// The hooks of `resumed`, all of them; tells of those that failed.
    pub(super) async fn resumed(self, executor: Arc<dyn Executor>) -> Vec<String> {
        self.beside(&Ok(executor), "resumed", &self.spec.resumed.hooks).await
    }

    /// The hooks of `reload`, up to the first that fails; tells of that one.
    pub(super) async fn reload(self, executor: Arc<dyn Executor>) -> Vec<String> {
        let executor = Ok(executor);
        for hook in self.spec.reload.hooks.chunks(1) {
            let failure = self.beside(&executor, "reload", hook).await;
            if !failure.is_empty() {
                return failure;
            }
        }
        Vec::new()
    }

    /// Runs hooks beside the main process, one after the other.
    async fn beside(
        &self,
        executor: &Result<Arc<dyn Executor>, ServicesError>,
        kind: &'static str,
        hooks: &[Hook],
    ) -> Vec<String> {
        let mut failures = Vec::new();
        for hook in hooks {
            let why = match timeout_at(deadline(hook), self.exec(executor, hook)).await {
                Ok(Ok(Exit::Status(0))) => continue,
                Ok(Ok(exit)) => words::exit(exit),
                Ok(Err(error)) => error.message,
                Err(_) => too_long(hook),
            };
            failures.push(failed(kind, hook, &why));
        }
        failures
    }

    /// One command in place of the main process. Kills the processes that it leaves behind.
    async fn run(
        &self,
        runner: &mut Box<dyn Runner>,
        kind: &str,
        hook: &Hook,
        environment: Vec<(String, String)>,
    ) -> Result<(), Failure> {
        let deadline = deadline(hook);
        let outcome = timeout_at(deadline, self.exit_of(runner, hook, environment)).await;
        // Also what was just being started.
        let cleared = runner.stop(KILL).await;
        let exit = match &outcome {
            Ok(Ok(exit)) => Some(*exit),
            Ok(Err(_)) | Err(_) => None,
        };
        let why = match (outcome, cleared) {
            (Ok(Ok(Exit::Status(0))), Ok(_)) => return Ok(()),
            (Ok(Ok(Exit::Status(0))), Err(error)) => error.message,
            (Ok(Ok(exit)), _) => words::exit(exit),
            (Ok(Err(error)), _) => error.message,
            (Err(_), _) => too_long(hook),
        };
        Err(Failure { error: RunnerError::new(failed(kind, hook, &why)), exit })
    }

    async fn exit_of(
        &self,
        runner: &mut Box<dyn Runner>,
        hook: &Hook,
        environment: Vec<(String, String)>,
    ) -> Result<Exit, RunnerError> {
        let (stdout, stderr) = self.pipes()?;
        let context = RunContext {
            command: Some(hook.command.clone()),
            as_root: hook.as_root,
            environment,
            ..RunContext::new(self.run, stdout, stderr)
        };
        Ok(runner.run(context).await?.exit.await)
    }

    /// One command beside the main process. Dropping the future kills it.
    async fn exec(
        &self,
        executor: &Result<Arc<dyn Executor>, ServicesError>,
        hook: &Hook,
    ) -> Result<Exit, RunnerError> {
        let executor = executor.as_ref().map_err(|error| RunnerError::new(error.to_string()))?;
        let outputs = Some(Arc::new(self.pipes()?));
        let environment = self.pid.map(|pid| ("MAINPID".to_owned(), pid.to_string())).into_iter().collect();
        let command = hook.command.clone();
        let as_root = hook.as_root;
        let request = ExecRequest { command, environment, outputs, as_root, ..ExecRequest::default() };
        let executing = executor.exec(request).await?;
        let _leash = Leash(executing.control);
        Ok(executing.exit.await)
    }

    /// The pipes for the output of a hook, which goes where the main process' output goes.
    fn pipes(&self) -> Result<Outputs, RunnerError> {
        let pipes = self.logs.pipes(&self.spec, self.run);
        pipes.map_err(|error| RunnerError::new(format!("its log pipes: {error}")))
    }
}

fn deadline(hook: &Hook) -> Instant {
    let now = Instant::now();
    now.checked_add(hook.timeout).unwrap_or(now)
}

fn too_long(hook: &Hook) -> String {
    format!("it had not ended after {}, killed", words::duration(hook.timeout))
}

/// `pre hook /usr/bin/migrate failed: exited with status 3`.
fn failed(kind: &str, hook: &Hook, why: &str) -> String {
    format!("{kind} hook {} failed: {why}", program(hook))
}

fn program(hook: &Hook) -> &str {
    hook.command.first().map_or("", String::as_str)
}
