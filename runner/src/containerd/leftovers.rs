//! Removes all objects of a service from containerd: those that an earlier incarnation left, those of a
//! failed start, and all at the end. It removes those that exist, in the reverse order of their making.

use std::time::Duration;

use containerd_client::types::v1::{Process, Status};
use kelson_containerd::{CallError, Code, Containerd, TaskProcess};
use tokio::time::{Instant, sleep};

use crate::cgroup::Cgroup;
use crate::runner::{ErrorKind, RunnerError};

/// How long the shim may take to see that its processes are dead.
const SEEN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
/// And how long it has for that before Kelson asks it to kill them all the same.
const NOTICE: Duration = Duration::from_secs(1);

/// The lease that holds what is half done.
pub(super) fn lease(service: &str) -> String {
    format!("kelson-{service}")
}

/// Removes task, container, snapshot and lease of a service.
///
/// # Errors
/// At once when containerd is away; otherwise after all of it was tried, with every failure.
pub(super) async fn remove(
    containerd: &Containerd,
    service: &str,
    snapshotter: &str,
    cgroup: Option<&Cgroup>,
) -> Result<(), RunnerError> {
    // While its task is there its root is in use: nothing else can go.
    remove_task(containerd, service, cgroup, false)
        .await
        .map_err(|error| error.while_doing("cannot remove the task of an earlier run"))?;
    let mut snapshotters = vec![snapshotter.to_owned()];
    let mut failures = Vec::new();
    let mut note = |result: Result<(), CallError>, what: &str| match result.map_err(RunnerError::from) {
        Err(error) if error.is_away() => Err(error),
        Err(error) => {
            failures.push(error.while_doing(what));
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    match containerd.container(service).await {
        Ok(Some(record)) => {
            if !record.snapshotter.is_empty() && record.snapshotter != snapshotter {
                snapshotters.push(record.snapshotter);
            }
            note(containerd.remove_container(service).await, "cannot remove the container")?;
        }
        Ok(None) => {}
        Err(error) => note(Err(error), "cannot look for the container")?,
    }
    for snapshotter in snapshotters.iter().filter(|name| !name.is_empty()) {
        note(containerd.remove_snapshot(snapshotter, service).await, "cannot remove the snapshot")?;
    }
    note(containerd.end_lease(&lease(service)).await, "cannot end the lease")?;
    match failures.split_first() {
        None => Ok(()),
        Some((first, [])) => Err(first.clone()),
        Some((first, rest)) => {
            let text = rest.iter().fold(first.to_string(), |text, error| format!("{text}; {error}"));
            Err(RunnerError { message: text, kind: ErrorKind::Retryable, ..first.clone() })
        }
    }
}

/// Ends and deletes a task, whatever its state. `ended`: its processes are known to have ended. A shim that has yet to
/// see that is not asked to kill them: for a kill it runs runc, which takes a busy machine longer than the end is seen
/// in.
pub(super) async fn remove_task(
    containerd: &Containerd,
    service: &str,
    cgroup: Option<&Cgroup>,
    ended: bool,
) -> Result<(), RunnerError> {
    let begun = Instant::now();
    // A containerd that died while it made a task leaves a shim that knows none: nothing is found, and a new one is
    // refused all the same. Deleting ends that shim.
    while let Some(Process { status, .. }) = containerd.process(&TaskProcess::main(service)).await?
        && status != Status::Stopped as i32
    {
        if ended && begun.elapsed() < NOTICE {
            sleep(LOOK).await;
            continue;
        }
        if let Some(cgroup) = cgroup {
            cgroup.kill()?;
        }
        // A task that was made and never started is not in the cgroup of an earlier incarnation, say.
        match containerd.kill(&TaskProcess::main(service)).await.map_err(RunnerError::from) {
            Err(error) if error.is_away() => return Err(error),
            _ => break,
        }
    }
    let begun = Instant::now();
    loop {
        match containerd.remove_task(service).await {
            // The shim has not yet seen its end, which is no event.
            Err(error) if error.is(Code::FailedPrecondition) && begun.elapsed() < SEEN => sleep(LOOK).await,
            other => return Ok(other?),
        }
    }
}
