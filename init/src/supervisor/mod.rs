//! PID 1 at work: boots, supervises, answers, and ends the run of the host.
//!
//! This wires the floors together and decides nothing that they can decide. From top to bottom: [`run`] boots while it
//! listens to signals, serves until the host is to end, then stops everything in order and hands over to
//! [`crate::shutdown`]. What serves meanwhile is the [`Context`]; [`opening`] makes it; [`again`] goes on with it in
//! the next life.

mod configuration;
mod context;
mod entrance;
mod environment;
mod intent;
mod later_mounts;
mod launchers;
mod listeners;
mod opening;
mod reaper;
mod reexec;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use kelson_runner::cgroup::CgroupRoot;
use kelson_runner::{Options as ProcessOptions, Processes};
use kelson_services::builtins::apid;
use kelson_services::state_store::{Kind, Past, StateStore};
use kelson_spec::Loaded;
use tokio::sync::mpsc;
use tokio::time::Instant;

use context::Context;
use environment::Environment;
pub use intent::{Intent, Intents, verb};
pub use launchers::Personalities;
use opening::{make_notify_directory, notify_directory, open};
use reaper::Reaper;

use crate::boot::{self, BootFailure, Sequence};
use crate::crash::BootReason;
use crate::options::{Mode, Options};
use crate::reexec::ReexecState;
use crate::signals::{Meaning, Signals};
use crate::watchdog::Watchdog;

/// How long clients have to read the last events.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long the probes have to end: they hold nothing.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long logd has to write what it holds.
const LOGD_TIMEOUT: Duration = Duration::from_secs(5);

/// What is left to do once all services are down.
pub struct Ended {
    pub intents: Intents,
    /// Starts what unmounts and syncs.
    pub personalities: Personalities,
    /// The boot failed: why.
    pub failure: Option<BootFailure>,
    pub watchdog: Option<Watchdog>,
}

/// Boots the host, or goes on with it, runs it, and stops its services. Returns when none is left.
///
/// # Errors
/// When not even children can be made or signals be read: then there is nothing that PID 1 could do.
pub async fn run(
    options: Options,
    sequence: Sequence,
    reexec_state: ReexecState,
    past: Option<Past>,
    boot_reason: BootReason,
) -> Result<Ended, String> {
    let binary = Arc::new(crate::memory::exe_fd().map_err(|error| format!("/proc/self/exe: {error}"))?);
    let intents = Intents::default();
    let reaper = Reaper::default();
    let signals = Signals::new(options.mode).map_err(|error| format!("signalfd: {error}"))?;
    let (reload, reloads) = mpsc::channel(1);
    tokio::spawn(listen(signals, reaper.clone(), intents.clone(), reload));
    let incarnation =
        Running { options, sequence: Arc::new(sequence), reexec_state, binary, intents, reaper, boot_reason };
    match past {
        Some(past) => incarnation.go_on(past, reloads).await,
        None => incarnation.begin(reloads).await,
    }
}

/// PID 1 between two of its executions.
struct Running {
    options: Options,
    sequence: Arc<Sequence>,
    reexec_state: ReexecState,
    binary: Arc<OwnedFd>,
    intents: Intents,
    reaper: Reaper,
    boot_reason: BootReason,
}

impl Running {
    /// The first life: the host boots.
    async fn begin(self, reloads: mpsc::Receiver<String>) -> Result<Ended, String> {
        let Running { options, sequence, reexec_state, binary, intents, reaper, boot_reason } = self;
        // The kernel's file systems are mounted by children that have no cgroup yet: cgroup2 is one of those.
        let early = personalities(&binary, &reexec_state, None, None)?;
        reaper.set(&early.processes, None);
        let launcher: Arc<dyn crate::task::Launcher> = Arc::new(early.clone());
        let phases = match options.mode {
            Mode::Machine => boot::machine::early(&options, launcher),
            Mode::Container => boot::container::early(&options),
        };
        let mut failure = tokio::select! {
            result = sequence.run_all(phases) => result.err(),
            _ = intents.asked() => None,
        };
        drop(early);

        let mut environment = Environment::lay(&options.runtime_dir);
        let cgroups = environment.cgroups();
        let personalities = personalities(&binary, &reexec_state, cgroups, environment.store.as_ref())?;
        reaper.set(&personalities.processes, environment.store.as_ref());
        let loaded = tokio::select! {
            loaded = personalities.load(&options.config, options.mode) => loaded,
            _ = intents.asked() => Loaded::default(),
        };
        if failure.is_none() && options.mode == Mode::Machine && intents.current().is_none() {
            let launcher: Arc<dyn crate::task::Launcher> = Arc::new(personalities.clone());
            let watchdog =
                environment.watchdog.task(loaded.machine.watchdog.clone(), environment.store.clone());
            let phases = boot::machine::configured(&options, &loaded.machine, launcher, watchdog);
            failure = tokio::select! {
                result = sequence.run_all(phases) => result.err(),
                _ = intents.asked() => None,
            };
        }

        if failure.is_none() {
            // From here on a next incarnation goes on; before, it does the boot again.
            environment.write(Kind::Boot, &*sequence.report().borrow());
            environment.write(Kind::ReexecState, &reexec_state);
        }
        make_notify_directory(&notify_directory(&options.runtime_dir));
        let context = open(options, personalities, intents, &loaded, &sequence, environment, reexec_state)?;
        context.watchdog.events().iter().for_each(|event| context.manager.host_event(event));
        context.tell_of(&boot_reason);
        context.begin(loaded);
        match &failure {
            Some(failure) => context.manager.host_event(&failure.to_string()),
            None => {
                if context.intents.current().is_none() {
                    context.manager.begin();
                }
                context.watch_boot(&sequence);
            }
        }
        Ok(serve(context, reloads, failure).await)
    }
}

fn personalities(
    binary: &Arc<OwnedFd>,
    reexec_state: &ReexecState,
    cgroups: Option<CgroupRoot>,
    store: Option<&StateStore>,
) -> Result<Personalities, String> {
    for warning in cgroups.iter().flat_map(|root| root.warnings()) {
        tracing::warn!("{warning}");
    }
    let processes =
        Processes::new(process_options(reexec_state, cgroups, store)).map_err(|error| error.to_string())?;
    Ok(Personalities { processes, binary: Arc::clone(binary) })
}

/// What children are given, and where they are recorded.
pub fn process_options(
    reexec_state: &ReexecState,
    cgroups: Option<CgroupRoot>,
    store: Option<&StateStore>,
) -> ProcessOptions {
    let record = store.and_then(|store| {
        let record = store.spawn_record();
        record.map_err(|error| tracing::error!("children that are being made are not recorded: {error}")).ok()
    });
    ProcessOptions {
        limits: reexec_state.limits.clone(),
        oom_score: reexec_state.oom_score,
        cgroups,
        record,
        ..ProcessOptions::default()
    }
}

/// Answers until the host is to end, then ends all services.
async fn serve(
    mut context: Context,
    mut reloads: mpsc::Receiver<String>,
    failure: Option<BootFailure>,
) -> Ended {
    if failure.is_none() {
        let intents = context.intents.clone();
        let asked = intents.asked();
        tokio::pin!(asked);
        loop {
            tokio::select! {
                biased;
                intent = &mut asked => {
                    context.manager.host_event(&format!("{}: asked for by {}", verb(intent.action), intent.reason));
                    break;
                }
                Some(request) = context.requests.recv() => context.answer(request),
                Some(fit) = async { match &mut context.fit { Some(fit) => fit.recv().await, None => None } } => context.reborn(fit).await,
                Some(by) = reloads.recv() => {
                    context.manager.host_event(&format!("reading the files again: asked for by {by}"));
                    context.reload(None);
                }
            }
        }
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
    let stopping = async {
        let stopped = manager.stop_all(deadline, &[apid::NAME]).await;
        if stopped.given_up.is_empty() {
            manager.host_event("all services are down");
        }
        // All checks have ended with their runs.
        prober.shutdown(Instant::now().checked_add(PROBE_TIMEOUT).unwrap_or(deadline)).await;
        collector.shutdown(Instant::now().checked_add(LOGD_TIMEOUT).unwrap_or(deadline)).await;
    };
    tokio::pin!(stopping);
    loop {
        tokio::select! {
            () = &mut stopping => break,
            Some(request) = context.requests.recv() => context.answer(request),
        }
    }
    if let Some(intent) = context.intents.current() {
        manager.host_event(&format!(
            "{}: services and logd have stopped, the rest follows",
            verb(intent.action)
        ));
    }
    manager.close().await;
    context.later_mounts.end().await;
    let _ = context.close_api.send(());
    let _ = tokio::time::timeout(LAST_WORDS, context.api).await;
    Ended { intents: context.intents, personalities: context.personalities, failure, watchdog }
}

/// Reads signals and reaps, for an end without a house.
///
/// # Errors
/// When signals cannot be read.
pub fn attend(mode: Mode, processes: &Processes, intents: &Intents) -> std::io::Result<()> {
    let reaper = Reaper::default();
    reaper.set(processes, None);
    let signals = Signals::new(mode)?;
    let (intents, (reload, _)) = (intents.clone(), mpsc::channel(1));
    tokio::spawn(async move {
        // What ended before.
        reaper.reap().await;
        listen(signals, reaper, intents, reload).await;
    });
    Ok(())
}

/// Reads signals for as long as PID 1 lives.
async fn listen(mut signals: Signals, reaper: Reaper, intents: Intents, reload: mpsc::Sender<String>) {
    loop {
        match signals.next().await {
            Ok(signal) => match signal.meaning {
                Meaning::Child => reaper.reap().await,
                Meaning::Shutdown(action) => {
                    let answer = intents.ask(action, &signal.to_string());
                    tracing::info!("{signal}: {answer}");
                }
                // One reading is enough for all that asked before it began.
                Meaning::Reload => drop(reload.try_send(signal.to_string())),
            },
            Err(error) => {
                tracing::error!("signals cannot be read: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
                reaper.reap().await;
            }
        }
    }
}
