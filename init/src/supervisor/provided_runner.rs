//! The runner of a service for which `kelson-task` makes something: around another one, which runs it.
//!
//! It is made before the first program of a run, be it a hook, and removed once the service has stopped. It outlives PID 1's
//! re-execution and its crash, as the service does.

use std::future::Future;
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_runner::{Attachment, BoxFuture, RunContext, Runner, RunnerError, Running, StopPlan, StopReport};

use super::secrets::CALL;
use crate::task::{self, Request};

/// What a service needs besides its processes.
pub(super) trait Provision: Send {
    /// Makes it, unless `is_made` says that it was made for this run, and adds what the programs of the run are to know.
    fn make(
        &mut self,
        inner: &mut dyn Runner,
        is_made: bool,
        context: &mut RunContext,
    ) -> impl Future<Output = Result<(), RunnerError>> + Send;

    /// Makes what is needed before anything else of the service is.
    fn claim(&mut self) -> impl Future<Output = Result<(), RunnerError>> + Send {
        std::future::ready(Ok(()))
    }

    /// An earlier incarnation of PID 1 has opened it.
    fn resume(&mut self) {}

    /// Waits for other archives of images, if it needs some. See [`Runner::archives_changed`].
    fn archives_changed(&mut self, _: u32) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// Adds what is known of it to a run.
    fn describe(&mut self, running: Running) -> Running {
        running
    }

    /// Finds the main process that the command of a run has left, if this knows better than `inner` does.
    fn find_main(
        &mut self,
        _: &mut dyn Runner,
    ) -> impl Future<Output = Option<Result<Running, RunnerError>>> + Send {
        std::future::ready(None)
    }

    /// Removes it.
    fn remove(&mut self) -> impl Future<Output = Result<(), RunnerError>> + Send;
}

/// Has `kelson-task` do what a service needs to run.
pub(super) async fn ask(tasks: &Arc<dyn Launcher>, request: Request) -> Result<(), RunnerError> {
    let done = task::run(&**tasks, &request, CALL).await;
    done.map(drop).map_err(|error| RunnerError::new(error.to_string()))
}

pub(super) struct ProvidedRunner<P> {
    inner: Box<dyn Runner>,
    provision: P,
    /// The run that it was made for.
    made: Option<u64>,
}

impl<P: Provision> ProvidedRunner<P> {
    pub(super) fn new(inner: Box<dyn Runner>, provision: P) -> ProvidedRunner<P> {
        ProvidedRunner { inner, provision, made: None }
    }
}

impl<P: Provision> Runner for ProvidedRunner<P> {
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(async move {
            self.provision.claim().await?;
            self.inner.open().await
        })
    }

    fn run(&mut self, mut context: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        Box::pin(async move {
            let run = Some(context.run);
            self.provision.make(&mut *self.inner, self.made == run, &mut context).await?;
            self.made = run;
            let running = self.inner.run(context).await?;
            Ok(self.provision.describe(running))
        })
    }

    fn stop(&mut self, plan: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        self.inner.stop(plan)
    }

    fn is_signalled(&self) -> bool {
        self.inner.is_signalled()
    }

    fn owner(&mut self) -> BoxFuture<'_, Result<(u32, u32), RunnerError>> {
        self.inner.owner()
    }

    fn attach(&mut self, attachment: Attachment) -> BoxFuture<'_, Result<Option<Running>, RunnerError>> {
        let run = attachment.run;
        if attachment.opened {
            self.provision.resume();
        }
        Box::pin(async move {
            let running = self.inner.attach(attachment).await?;
            self.made = running.as_ref().map(|_| run);
            Ok(running.map(|running| self.provision.describe(running)))
        })
    }

    fn find_main(&mut self, named: Option<i32>) -> BoxFuture<'_, Result<Running, RunnerError>> {
        Box::pin(async move {
            match self.provision.find_main(&mut *self.inner).await {
                Some(found) => found,
                None => self.inner.find_main(named).await,
            }
        })
    }

    fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    fn archives_changed(&mut self, archives: u32) -> BoxFuture<'_, ()> {
        self.provision.archives_changed(archives).unwrap_or_else(|| self.inner.archives_changed(archives))
    }

    fn warnings(&self) -> &[String] {
        self.inner.warnings()
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(async move {
            let closed = self.inner.close().await;
            self.made = None;
            closed.and(self.provision.remove().await)
        })
    }
}
