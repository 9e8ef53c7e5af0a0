//! The [`Runner`] of a target: nothing runs, and its run lasts until it is stopped.

use tokio::sync::oneshot;

use crate::runner::{
    Attachment, BoxFuture, Exit, RunContext, Runner, RunnerError, Running, StopPlan, StopReport,
};

/// Runs nothing.
#[derive(Debug, Default)]
pub struct TargetRunner {
    /// Dropped when the run is to end.
    run: Option<oneshot::Sender<()>>,
}

impl TargetRunner {
    fn begin(&mut self) -> Running {
        let (run, ended) = oneshot::channel();
        self.run = Some(run);
        let exit = Box::pin(async {
            let _ = ended.await;
            Exit::Status(0)
        });
        Running { pid: 0, start_time: 0, stop_signal: None, addresses: Vec::new(), exit }
    }
}

fn ready<T: Send + 'static>(value: T) -> BoxFuture<'static, Result<T, RunnerError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Runner for TargetRunner {
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        ready(())
    }

    fn run(&mut self, _: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        ready(self.begin())
    }

    /// Nothing of a run can be lost: one that was opened continues.
    fn attach(&mut self, attachment: Attachment) -> BoxFuture<'_, Result<Option<Running>, RunnerError>> {
        ready(attachment.opened.then(|| self.begin()))
    }

    fn stop(&mut self, _: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        self.run = None;
        ready(StopReport::default())
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        self.run = None;
        ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;

    const STOP: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::ZERO };

    fn context(run: u64) -> RunContext {
        let null = || std::fs::File::open("/dev/null").unwrap().into();
        RunContext::new(run, null(), null())
    }

    #[tokio::test]
    async fn a_run_lasts_until_it_is_stopped() {
        let mut runner = TargetRunner::default();
        runner.open().await.unwrap();
        for number in 1..=2 {
            let mut running = runner.run(context(number)).await.unwrap();
            assert_eq!(running.pid, 0);
            assert!((&mut running.exit).now_or_never().is_none());
            assert_eq!(runner.stop(STOP).await.unwrap(), StopReport::default());
            assert_eq!(running.exit.now_or_never(), Some(Exit::Status(0)));
        }
        runner.close().await.unwrap();
    }

    #[tokio::test]
    async fn another_incarnation_continues_what_was_opened() {
        let before = |opened| Attachment { run: 3, pid: 0, start_time: 0, opened };
        assert!(TargetRunner::default().attach(before(false)).await.unwrap().is_none());
        let mut runner = TargetRunner::default();
        let mut running = runner.attach(before(true)).await.unwrap().unwrap();
        assert!((&mut running.exit).now_or_never().is_none());
        runner.stop(STOP).await.unwrap();
        assert_eq!(running.exit.now_or_never(), Some(Exit::Status(0)));
    }
}
