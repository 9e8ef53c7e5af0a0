//! Running a command beside a service, and sending its process a signal, as an operator asks.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{ExecRequest, Executing, Executor};
use tokio::sync::oneshot;

use super::{Kind, Manager};
use crate::service_runner::task::Command;

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
    pub async fn exec(&self, name: &str, request: ExecRequest) -> Result<Executing, String> {
        if self.closing() {
            return Err("the host is stopping: nothing more is started".into());
        }
        let place = Arc::clone(&self.inner.execs).try_acquire_owned().map_err(|_| {
            format!("{MOST} commands run beside services, which is all that run at the same time: end some of them")
        })?;
        let executor = self.executor(name).await?;
        let executing = executor.exec(request).await.map_err(|error| error.message)?;
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
    pub async fn signal(&self, name: &str, signal: i32, asked_by: String) -> Result<i32, String> {
        self.ask_task(name, |reply| Command::Signal { signal, asked_by, reply }).await
    }

    async fn executor(&self, name: &str) -> Result<Arc<dyn Executor>, String> {
        if self.get(name).is_some_and(|snapshot| snapshot.builtin) {
            return Err(format!(
                "service \"{name}\" is built in: commands run beside the services that have files"
            ));
        }
        self.ask_task(name, |reply| Command::Executor { reply }).await
    }

    /// Asks the task of a service.
    async fn ask_task<T>(
        &self,
        name: &str,
        command: impl FnOnce(oneshot::Sender<Result<T, String>>) -> Command,
    ) -> Result<T, String> {
        let mailbox = match self.entries().get(name) {
            None => return Err(self.unknown(name)),
            Some(entry) => match &entry.kind {
                Kind::Live(handle) => handle.mailbox.clone(),
                Kind::ExternalService(_) => {
                    return Err(format!(
                        "service \"{name}\" is built in: `kelsonctl restart {name}` replaces it"
                    ));
                }
                Kind::Faulty(_) => {
                    return Err(format!(
                        "service \"{name}\" does not run: its state is {}",
                        entry.snapshot().state.name()
                    ));
                }
            },
        };
        let (reply, answer) = oneshot::channel();
        let gone = || format!("service \"{name}\" does not answer");
        mailbox.send(command(reply)).map_err(|_| gone())?;
        tokio::time::timeout(ANSWER, answer).await.map_err(|_| gone())?.map_err(|_| gone())?
    }
}
