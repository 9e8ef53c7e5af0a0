//! The end of a process: its signal, its timeout, SIGKILL.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use crate::cgroup::Cgroup;
use crate::deaf::Deaf;
use crate::processes::has_ended;
use crate::runner::{StopPlan, StopReport};

/// How long a stop waits before it looks whether the service is frozen. That is rare, and asking costs as much as a stop.
const PROMPT: Duration = Duration::from_millis(100);

/// Signal, timeout, kill, of the process `pid`, which `send` signals and `ended` waits for. Thaws a frozen
/// `cgroup` on the way. `signal`: its stop signal, which the plan leaves out (0) where it was sent before.
/// Tells whether it was killed, and why its signal did not end it. Cancelled by dropping.
pub(crate) async fn end<F: Future>(
    pid: i32,
    plan: StopPlan,
    signal: i32,
    cgroup: Option<&Cgroup>,
    send: impl Fn(i32),
    ended: impl Fn() -> F,
) -> StopReport {
    if plan.signal != 0 {
        send(plan.signal);
    }
    // A stopped process would sleep through it.
    send(libc::SIGCONT);
    let prompt = PROMPT.min(plan.timeout.checked_div(2).unwrap_or_default());
    if timeout(prompt, ended()).await.is_ok() {
        return StopReport::default();
    }
    // A PID 1 that is busy may only have yet to reap it.
    if let Some(cgroup) = cgroup.filter(|cgroup| !has_ended(pid) && cgroup.is_frozen())
        && let Err(error) = cgroup.thaw()
    {
        tracing::warn!("{error}");
    }
    let killed = timeout(plan.timeout.saturating_sub(prompt), ended()).await.is_err();
    // Not of one that was to be killed at once.
    let told = killed && plan.signal != libc::SIGKILL && !plan.timeout.is_zero();
    let deaf = told.then(|| Deaf::to(pid, signal)).flatten();
    if killed {
        send(libc::SIGKILL);
    }
    StopReport { killed, deaf, ..StopReport::default() }
}
