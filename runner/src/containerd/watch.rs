//! How a container's process ended. containerd says so, but an answer that was lost is no exit: the kernel knows
//! whether the process lives, and containerd is asked again until it tells.

use std::sync::Arc;
use std::time::Duration;

use containerd_client::types::v1::{Process, Status};
use kelson_containerd::{Containerd, TaskProcess};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::pidfd::ProcessHandle;
use super::retry::Pauses;
use crate::runner::{BoxFuture, Exit};

/// How long containerd may take to tell the status of a process that has ended. Then it is not learnt.
const STATUS: Duration = Duration::from_secs(30);
/// The kernel may tell instead, once the process's parent has reaped it; that is no event.
const LOOK: Duration = Duration::from_millis(100);

/// The end of one process, for any number of owners.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    receiver: watch::Receiver<Option<Exit>>,
}

impl Ending {
    pub(super) fn exited(&self) -> Option<Exit> {
        *self.receiver.borrow()
    }

    /// Cancelled by dropping; loses nothing then.
    pub(super) async fn exit(&mut self) -> Exit {
        match self.receiver.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Lost),
            // Its watcher panicked.
            Err(_) => Exit::Lost,
        }
    }

    pub(super) fn into_future(mut self) -> BoxFuture<'static, Exit> {
        Box::pin(async move { self.exit().await })
    }
}

/// Watches a process in a task of its own. `handle` is `None` where it had ended before it could be looked at: the shim
/// remembers the status until the process is deleted, which Kelson alone does.
pub(super) fn begin(
    containerd: Containerd,
    process: TaskProcess,
    handle: Arc<Option<ProcessHandle>>,
) -> Ending {
    let (sender, receiver) = watch::channel(None);
    kelson_sys::spawn(async move {
        let exit = tokio::select! {
            exit = learn(&containerd, &process, &handle) => exit,
            // Nobody is left who wants to know.
            () = sender.closed() => return,
        };
        sender.send_replace(Some(exit));
    });
    Ending { receiver }
}

async fn learn(containerd: &Containerd, process: &TaskProcess, handle: &Option<ProcessHandle>) -> Exit {
    let exit = tokio::select! {
        exit = ask(containerd, process, handle.as_ref()) => exit,
        exit = ended_unsaid(handle.as_ref()) => return exit,
    };
    match handle {
        // containerd cannot tell a signal from a status above 128.
        Some(handle) if exit != Exit::Lost => handle.exit().unwrap_or(exit),
        _ => exit,
    }
}

/// The process has ended, and containerd does not say how.
async fn ended_unsaid(handle: Option<&ProcessHandle>) -> Exit {
    let Some(handle) = handle else {
        sleep(STATUS).await;
        return Exit::Lost;
    };
    handle.ended().await;
    let ended = Instant::now();
    while ended.elapsed() < STATUS {
        sleep(LOOK).await;
        if let Some(exit) = handle.exit() {
            return exit;
        }
    }
    Exit::Lost
}

/// Asks until containerd tells.
async fn ask(containerd: &Containerd, process: &TaskProcess, handle: Option<&ProcessHandle>) -> Exit {
    let mut pauses = Pauses::new();
    loop {
        let asked = Instant::now();
        match containerd.wait(process).await {
            Ok(status) => return exit_of(status),
            Err(error) => tracing::debug!("lost sight of container {}: {error}", process.container),
        }
        if asked.elapsed() > Pauses::LONGEST {
            pauses = Pauses::new();
        }
        pauses.next().await;
        let found = containerd.process(process).await;
        let another = |found: &Process| handle.is_some_and(|h| u32::try_from(h.pid()) != Ok(found.pid));
        match found {
            // A later run: of this one nothing is known any more.
            Ok(Some(found)) if found.pid != 0 && another(&found) => return gone(handle).await,
            Ok(Some(Process { status, exit_status, .. })) if status == Status::Stopped as i32 => {
                return exit_of(exit_status);
            }
            // It runs, or is not known to have ended.
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => return gone(handle).await,
        }
    }
}

/// containerd has forgotten the process. While it lives all the same that is no exit.
async fn gone(handle: Option<&ProcessHandle>) -> Exit {
    let Some(handle) = handle else { return Exit::Lost };
    handle.ended().await;
    // Its parent reaps it in a moment.
    sleep(LOOK).await;
    handle.exit().unwrap_or(Exit::Lost)
}

/// The shim reports an end by signal n as status 128 + n, and so does a shell of its last command: the number alone
/// does not distinguish them (from Linux 6.15 on the kernel does, and is asked first). This takes it as a signal, as an
/// operator would.
pub(super) fn exit_of(status: u32) -> Exit {
    let status = i32::try_from(status).unwrap_or(255);
    match status.checked_sub(128) {
        Some(signal @ 1..=64) => Exit::Signal { signal, core: false },
        _ => Exit::Status(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_above_128_is_a_signal() {
        assert_eq!(exit_of(0), Exit::Status(0));
        assert_eq!(exit_of(3), Exit::Status(3));
        assert_eq!(exit_of(128), Exit::Status(128));
        assert_eq!(exit_of(137), Exit::Signal { signal: 9, core: false });
        assert_eq!(exit_of(192), Exit::Signal { signal: 64, core: false });
        assert_eq!(exit_of(193), Exit::Status(193));
        assert_eq!(exit_of(255), Exit::Status(255));
    }
}
