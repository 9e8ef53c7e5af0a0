//! Requests to the task of a service: to run a command beside it, to send it a signal, to report the state of
//! its checks.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{ExecRequest, Executing, Executor};
use tokio::sync::oneshot;

use super::{Kind, Manager};
use crate::error::ServicesError::{self, NotNow};
use crate::model::CheckReport;
use crate::service_runner::task::{Command, ServiceHandle};

/// Commands of operators at the same time, on the whole host: each holds descriptors and a stream of PID 1.
pub(super) const MOST: usize = 64;
/// A service answers at once; one that does not is broken.
const ANSWER: Duration = Duration::from_secs(5);

impl Manager {
    /// Starts a command beside the main process of a service that is starting or running. It counts among the
    /// [`MOST`] until its exit has been awaited or dropped. Dropping the future ends whatever it began.
    ///
    /// # Errors
    /// A sentence: there is no such service, it does not run, or the command cannot be started.
    pub async fn exec(&self, name: &str, request: ExecRequest) -> Result<Executing, ServicesError> {
        if self.closing() {
            return Err(NotNow("the host is stopping: nothing more is started".into()));
        }
        let place = Arc::clone(&self.inner.execs).try_acquire_owned().map_err(|_| {
            NotNow(format!(
                "{MOST} commands run beside services, which is all that run at the same time: end some of them"
            ))
        })?;
        let executor = self.executor(name).await?;
        let executing = executor.exec(request).await.map_err(|error| NotNow(error.message))?;
        let exit = executing.exit;
        let exit = Box::pin(async move {
            let ended = exit.await;
            drop(place);
            ended
        });
        Ok(Executing { exit, ..executing })
    }

    /// Sends a signal to the main process of a service that runs; `asked_by` goes into the event. Answered with the
    /// PID.
    ///
    /// # Errors
    /// A sentence: there is no such service, it does not run, or the kernel refuses.
    pub async fn signal(&self, name: &str, signal: i32, asked_by: String) -> Result<i32, ServicesError> {
        self.ask_task(name, |reply| Command::Signal { signal, run: None, asked_by, reply }).await
    }

    async fn executor(&self, name: &str) -> Result<Arc<dyn Executor>, ServicesError> {
        if self.get(name).is_some_and(|snapshot| snapshot.builtin) {
            return Err(NotNow(format!(
                "service \"{name}\" is built in: commands run beside the services that have files"
            )));
        }
        self.ask_task(name, |reply| Command::Executor { reply }).await
    }

    /// The checks of a service with their last results; empty where it has none or is not known.
    pub async fn checks(&self, name: &str) -> Vec<CheckReport> {
        let Some(handle) = self.live(name) else { return Vec::new() };
        answer_of(&handle, |reply| Command::Checks { reply }).await.unwrap_or_default()
    }

    /// Asks the task of a service.
    pub(super) async fn ask_task<T>(
        &self,
        name: &str,
        command: impl FnOnce(oneshot::Sender<Result<T, ServicesError>>) -> Command,
    ) -> Result<T, ServicesError> {
        let handle = match self.entries().get(name) {
            None => None,
            Some(entry) => match &entry.kind {
                Kind::Live(handle) => Some(handle.clone()),
                Kind::Helper(_) => {
                    let text =
                        format!("service \"{name}\" is built in: `kelsonctl restart {name}` replaces it");
                    return Err(NotNow(text));
                }
                Kind::Faulty(_) => {
                    let state = entry.snapshot().state.name();
                    return Err(NotNow(format!("service \"{name}\" does not run: its state is {state}")));
                }
            },
        };
        let handle = handle.ok_or_else(|| self.unknown(name))?;
        let answer = answer_of(&handle, command).await;
        answer.unwrap_or_else(|| Err(NotNow(format!("service \"{name}\" does not answer"))))
    }
}

/// Waits for the answer of a service's task. `None`: it does not answer.
async fn answer_of<T>(
    handle: &ServiceHandle,
    command: impl FnOnce(oneshot::Sender<T>) -> Command,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    handle.mailbox.send(command(reply)).ok()?;
    tokio::time::timeout(ANSWER, answer).await.ok()?.ok()
}
