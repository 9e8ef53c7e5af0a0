//! The hooks of a service: commands before, beside and after the main process of a run.
//!
//! `pre` and `post` are runs of the service's own runner with another command, so that they are confined, limited and
//! logged as the main process is. `postStart` and `preStop` run beside it, as checks do.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{BoxFuture, ExecRequest, Executor, Exit, Leash, Outputs, RunContext, Runner, StopPlan};
use kelson_spec::service::Hook;
use tokio::time::{Instant, timeout_at};

use super::super::surroundings::Surroundings;
use super::Core;
use crate::service_runner::table::Phase;
use crate::service_runner::words;

/// Ends whatever a hook has left.
pub(super) const KILL: StopPlan = StopPlan { signal: libc::SIGKILL, timeout: Duration::ZERO };

/// What a hook needs of its service, so that no future borrows the task.
pub(super) struct Hooks {
    surroundings: Arc<Surroundings>,
    name: Arc<str>,
    spec: Arc<kelson_spec::ServiceSpec>,
    run: u64,
    /// How the main process ended, where it has.
    exit: Option<Exit>,
}

impl Hooks {
    /// The `pre` hooks, up to the first that fails.
    pub(super) async fn pre(self, runner: &mut Box<dyn Runner>) -> Result<(), String> {
        for hook in &self.spec.hooks.pre {
            self.run(runner, "pre", hook, Vec::new()).await?;
        }
        Ok(())
    }

    /// The `post` hooks, all of them; tells of those that failed.
    pub(super) async fn post(self, runner: &mut Box<dyn Runner>) -> Vec<String> {
        let environment = match self.exit {
            Some(Exit::Status(status)) => vec![("KELSON_EXIT_STATUS".to_owned(), status.to_string())],
            Some(Exit::Signal { signal, .. }) => vec![("KELSON_EXIT_SIGNAL".to_owned(), signal.to_string())],
            Some(Exit::Lost) | None => Vec::new(),
        };
        let mut failures = Vec::new();
        for hook in &self.spec.hooks.post {
            failures.extend(self.run(runner, "post", hook, environment.clone()).await.err());
        }
        failures
    }

    /// One command in place of the main process. What it leaves behind is killed.
    async fn run(
        &self,
        runner: &mut Box<dyn Runner>,
        kind: &str,
        hook: &Hook,
        environment: Vec<(String, String)>,
    ) -> Result<(), String> {
        let deadline = deadline(hook);
        let outcome = timeout_at(deadline, self.exit_of(runner, hook, environment)).await;
        // Also what was just being started.
        let cleared = runner.stop(KILL).await;
        let why = match (outcome, cleared) {
            (Ok(Ok(Exit::Status(0))), Ok(_)) => return Ok(()),
            (Ok(Ok(Exit::Status(0))), Err(error)) => error.message,
            (Ok(Ok(exit)), _) => words::exit(exit),
            (Ok(Err(text)), _) => text,
            (Err(_), _) => too_long(hook),
        };
        Err(failed(kind, hook, &why))
    }

    async fn exit_of(
        &self,
        runner: &mut Box<dyn Runner>,
        hook: &Hook,
        environment: Vec<(String, String)>,
    ) -> Result<Exit, String> {
        let (stdout, stderr) = self.pipes()?;
        let context = RunContext {
            run: self.run,
            command: Some(hook.command.clone()),
            stdout,
            stderr,
            environment,
            descriptors: Vec::new(),
        };
        let running = runner.run(context).await.map_err(|error| error.message)?;
        Ok(running.exit.await)
    }

    /// One command beside the main process. Dropping the future kills it.
    async fn exec(&self, executor: &Result<Arc<dyn Executor>, String>, hook: &Hook) -> Result<Exit, String> {
        let executor = executor.as_ref().map_err(Clone::clone)?;
        let outputs = Some(Arc::new(self.pipes()?));
        let request = ExecRequest { command: hook.command.clone(), outputs, ..ExecRequest::default() };
        let executing = executor.exec(request).await.map_err(|error| error.message)?;
        let _leash = Leash(executing.control);
        Ok(executing.exit.await)
    }

    /// What a hook says goes where the main process' output goes.
    fn pipes(&self) -> Result<Outputs, String> {
        let pipes = self.surroundings.logs.pipes(&self.name, self.run, &self.spec.logs);
        pipes.map_err(|error| format!("its log pipes: {error}"))
    }
}

impl Core {
    pub(super) fn hooks(&self) -> Hooks {
        Hooks {
            surroundings: Arc::clone(&self.surroundings),
            name: Arc::clone(&self.name),
            spec: Arc::clone(&self.spec),
            run: self.life.run,
            exit: self.life.exit,
        }
    }

    /// The `preStop` hooks; the texts tell of those that failed.
    pub(super) fn pre_stop(&self) -> BoxFuture<'static, Vec<String>> {
        self.beside("preStop", |hooks| &hooks.pre_stop)
    }

    /// Starts the `postStart` hooks of a run that is ready, and drops those of a run that is ending: asked after each
    /// step, as the checks are.
    pub(super) fn mind_hooks(&mut self) {
        if self.life.phase != Phase::Active {
            self.post_start = None;
        } else if self.life.ready
            && self.post_start_of != self.life.run
            && !self.spec.hooks.post_start.is_empty()
        {
            self.post_start_of = self.life.run;
            self.post_start = Some(self.beside("postStart", |hooks| &hooks.post_start));
        }
    }

    /// Runs hooks beside the main process, one after the other.
    fn beside(
        &self,
        kind: &'static str,
        which: fn(&kelson_spec::service::Hooks) -> &[Hook],
    ) -> BoxFuture<'static, Vec<String>> {
        let (context, executor) = (self.hooks(), self.executor_of_run());
        Box::pin(async move {
            let mut failures = Vec::new();
            for hook in which(&context.spec.hooks) {
                let why = match timeout_at(deadline(hook), context.exec(&executor, hook)).await {
                    Ok(Ok(Exit::Status(0))) => continue,
                    Ok(Ok(exit)) => words::exit(exit),
                    Ok(Err(text)) => text,
                    Err(_) => too_long(hook),
                };
                failures.push(failed(kind, hook, &why));
            }
            failures
        })
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
    let program = hook.command.first().map_or("", String::as_str);
    format!("{kind} hook {program} failed: {why}")
}
