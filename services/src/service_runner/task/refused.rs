//! The runner of a spec that this host cannot run.

use kelson_runner::{
    Attachment, BoxFuture, ErrorKind, RunContext, Runner, RunnerError, Running, StopPlan, StopReport,
};

/// Fails each start with the reason, in place of the runner that there is none of.
pub struct Refused(pub String);

impl Refused {
    fn error<T: Send + 'static>(&self) -> BoxFuture<'static, Result<T, RunnerError>> {
        let error = RunnerError::of_kind(ErrorKind::Permanent, &self.0);
        Box::pin(std::future::ready(Err(error)))
    }
}

impl Runner for Refused {
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        self.error()
    }

    fn run(&mut self, _: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        self.error()
    }

    fn attach(&mut self, _: Attachment) -> BoxFuture<'_, Result<Option<Running>, RunnerError>> {
        self.error()
    }

    fn stop(&mut self, _: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        Box::pin(std::future::ready(Ok(StopReport::default())))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
