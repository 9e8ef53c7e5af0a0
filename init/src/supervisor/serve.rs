//! Answers until the host is to end, then ends all services.

use std::time::Duration;

use kelson_services::builtins::program;
use kelson_services::fleet;
use kelson_services::timers::SUPPORTED;
use kelson_services::volumes;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::api::LAST_WORDS;
use super::context::Context;
use super::intent::{Intents, verb};
use super::launchers::Personalities;
use crate::boot::BootFailure;
use crate::signals::Signal;
use crate::watchdog::Watchdog;

/// How long the probes have to end: they hold nothing.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long logd has to write what it holds.
const LOGD_TIMEOUT: Duration = Duration::from_secs(5);

/// The work that remains once all services are down.
pub struct Ended {
    pub intents: Intents,
    /// Starts what unmounts and syncs.
    pub personalities: Personalities,
    /// The boot failed: why.
    pub failure: Option<BootFailure>,
    pub watchdog: Option<Watchdog>,
    /// The time of the total deadline that is left.
    pub left: Duration,
}

/// Serves the host, unless its boot has failed, and stops its services.
pub(super) async fn serve(
    mut context: Context,
    mut signals: mpsc::Receiver<Signal>,
    failure: Option<BootFailure>,
) -> Ended {
    if failure.is_none() {
        answer(&mut context, &mut signals).await;
    }
    let intent = context.intents.current();
    let timeout = context.configuration.machine().shutdown_timeout;
    let left = intent.map_or(timeout, |intent| intent.left_of(timeout));
    let deadline = Instant::now().checked_add(left).unwrap_or_else(Instant::now);
    let watchdog = context.watchdog.get().cloned();
    if let Some(watchdog) = &watchdog {
        let patience = PROBE_TIMEOUT.saturating_add(LOGD_TIMEOUT).saturating_add(LAST_WORDS);
        watchdog.due("stopping the services", left.saturating_add(patience));
    }
    let (manager, collector, prober) =
        (context.manager.clone(), context.collector.clone(), context.prober.clone());
    let (timers, volumes, fleet) = (context.timers, context.volumes.clone(), context.fleet.clone());
    let stopping = async {
        let last: Vec<&str> = program::last().collect();
        let stopped = manager.stop_all(deadline, &last).await;
        if stopped.given_up.is_empty() {
            manager.host_event("all services are down");
        }
        if SUPPORTED && let Some(timers) = timers {
            timers.shutdown(Instant::now().checked_add(PROBE_TIMEOUT).unwrap_or(deadline)).await;
        }
        if volumes::SUPPORTED
            && let Some(volumes) = volumes
        {
            volumes.shutdown(Instant::now().checked_add(PROBE_TIMEOUT).unwrap_or(deadline)).await;
        }
        if fleet::SUPPORTED {
            fleet.shutdown(Instant::now().checked_add(PROBE_TIMEOUT).unwrap_or(deadline)).await;
        }
        // All checks have ended with their runs.
        if let Some(prober) = prober {
            prober.shutdown(Instant::now().checked_add(PROBE_TIMEOUT).unwrap_or(deadline)).await;
        }
        collector.shutdown(Instant::now().checked_add(LOGD_TIMEOUT).unwrap_or(deadline)).await;
    };
    tokio::pin!(stopping);
    loop {
        tokio::select! {
            () = &mut stopping => break,
            Some(request) = context.requests.recv() => context.answer(request),
            Some(signal) = signals.recv() => context.signalled(&signal),
        }
    }
    if let Some(status) = manager.main_status() {
        context.intents.settle(status);
    }
    if let Some(intent) = context.intents.current() {
        manager.host_event(&format!(
            "{}: services and logd have stopped, the rest follows",
            verb(intent.action)
        ));
    }
    manager.close().await;
    context.absent_disks.end().await;
    context.later_mounts.end().await;
    context.api.close().await;
    let left = deadline.saturating_duration_since(Instant::now());
    Ended { intents: context.intents, personalities: context.personalities, failure, watchdog, left }
}

/// Answers until somebody asks for the end of the host.
async fn answer(context: &mut Context, signals: &mut mpsc::Receiver<Signal>) {
    let intents = context.intents.clone();
    let asked = intents.asked();
    let manager = context.manager.clone();
    let service_end = manager.service_end();
    tokio::pin!(asked, service_end);
    loop {
        tokio::select! {
            biased;
            intent = &mut asked => {
                context.manager.host_event(&format!("{}: asked for by {}", verb(intent.action), intent.reason));
                return;
            }
            end = &mut service_end => {
                // From here on there is an intent, and the next turn returns.
                context.intents.end_with(end.status, &format!("the end of {}: {}", end.name, end.message));
            }
            Some(request) = context.requests.recv() => context.answer(request),
            Some(fit) = context.reexec.found() => context.reexec.execute(fit).await,
            Some(signal) = signals.recv() => context.signalled(&signal),
        }
    }
}
