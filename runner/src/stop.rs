//! The end of a process: its signal, its timeout, SIGKILL.

use std::future::Future;
use std::time::Duration;

use kelson_spec::service::{StopMode, StopSpec};
use tokio::time::timeout;

use crate::cgroup::Cgroup;
use crate::deaf::Deaf;
use crate::processes::has_ended;
use crate::runner::{StopPlan, StopReport};

/// How long a stop waits before it looks whether the service is frozen. That is rare, and asking costs as much as a stop.
const PROMPT: Duration = Duration::from_millis(100);

/// From a final signal to SIGKILL.
const FINAL: Duration = Duration::from_secs(5);

/// Signal, timeout, kill, of the process `pid`, which `send` signals and `ended` waits for, and with that of all others
/// in its `cgroup` if `spec` says so. Thaws a frozen one on the way. `signal`: its stop signal, which the plan leaves out
/// (0) where it was sent before. Tells whether it was killed, and why its signal did not end it. Cancelled by dropping.
pub(crate) async fn end<F: Future>(
    pid: i32,
    plan: StopPlan,
    (spec, signal): (&StopSpec, i32),
    cgroup: Option<&Cgroup>,
    send: impl Fn(i32),
    ended: impl Fn() -> F,
) -> StopReport {
    let is_kill = plan.signal == libc::SIGKILL || plan.timeout.is_zero();
    let all = cgroup.filter(|_| spec.mode == StopMode::Cgroup);
    let send_all = |signal| {
        send(signal);
        if let Some(cgroup) = all {
            cgroup.signal_others(pid, signal);
        }
    };
    let gone = || async {
        ended().await;
        if let Some(cgroup) = all.filter(|_| !is_kill)
            && let Err(error) = cgroup.unpopulated(plan.timeout).await
        {
            tracing::warn!("{error}");
        }
    };
    if plan.signal != 0 {
        send_all(plan.signal);
        if spec.hang_up {
            send_all(libc::SIGHUP);
        }
    }
    // A stopped process would sleep through it.
    send_all(libc::SIGCONT);
    let prompt = PROMPT.min(plan.timeout.checked_div(2).unwrap_or_default());
    if timeout(prompt, gone()).await.is_ok() {
        return StopReport::default();
    }
    // A PID 1 that is busy may only have yet to reap it.
    if let Some(cgroup) = cgroup.filter(|cgroup| !has_ended(pid) && cgroup.is_frozen())
        && let Err(error) = cgroup.thaw()
    {
        tracing::warn!("{error}");
    }
    let killed = timeout(plan.timeout.saturating_sub(prompt), gone()).await.is_err();
    // Not of one that was to be killed at once.
    let told = killed && !is_kill;
    // Nor of a number that may be another's by now.
    let deaf = match told && timeout(Duration::ZERO, ended()).await.is_err() {
        true => Deaf::to(pid, signal),
        false => None,
    };
    if told && let Some(signal) = spec.final_signal {
        send_all(signal);
        let _ = timeout(FINAL, gone()).await;
    }
    if killed {
        send(libc::SIGKILL);
    }
    StopReport { killed, deaf, ..StopReport::default() }
}
