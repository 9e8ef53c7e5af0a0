//! PID 1 at work: boots, supervises, answers, and ends the run of the host.
//!
//! This wires the floors together and decides nothing that they can decide. From top to bottom: [`run`] boots while it
//! listens to signals, serves until the host is to end, then stops everything in order and hands over to
//! [`crate::shutdown`].

mod again;
mod doors;
mod foundation;
mod intent;
mod launchers;
mod reaper;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_api::server::{self, AUDIT_LOG, Audit, ServerOptions};
use kelson_conditions::{Clock, Network, Paths};
use kelson_image::{Unpacker, UnpackerOptions};
use kelson_logs::{Collector, LogOptions};
use kelson_probe::Prober;
use kelson_runner::cgroup::CgroupRoot;
use kelson_runner::{Containerd, Options as ProcessOptions, Processes};
use kelson_services::builtins::{apid, containerd, logd, probe};
use kelson_services::groups::{self, Groups};
use kelson_services::host::{Host, HostRequest, ReloadReport};
use kelson_services::images::{ImageStore, UNPACK, UnpackLauncher};
use kelson_services::inspect::{INSPECT, InspectLauncher, Inspector};
use kelson_services::manager::Manager;
use kelson_services::node_health::NodeHealth;
use kelson_services::runners::Runners;
use kelson_services::service_runner::gate::{Registry, Sources};
use kelson_services::service_runner::task::{Surroundings, TURNS};
use kelson_services::state_store::{Kind, Past, StateStore};
use kelson_spec::{Loaded, MachineSpec, ServiceSpec};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use again::Fit;
use doors::Doors;
use foundation::Foundation;
pub use intent::{Intent, Intents, verb};
pub use launchers::Personalities;
use reaper::Reaper;

use crate::boot::{self, BootFailure, Sequence};
use crate::crash::{Arrival, report};
use crate::options::{Mode, Options};
use crate::reexec::Rebirth;
use crate::signals::{Meaning, Signals};
use crate::watchdog::{self, Watchdog};

/// How long clients have to read the last events.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long the probes have to end: they hold nothing.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);
/// How long logd has to write what it holds.
const LOGD_PATIENCE: Duration = Duration::from_secs(5);

/// What is left to do once all services are down.
pub struct Ended {
    pub intents: Intents,
    /// Starts what unmounts and syncs.
    pub personalities: Personalities,
    /// The boot failed: why.
    pub failure: Option<BootFailure>,
    pub watchdog: Option<Watchdog>,
}

/// Everything that serves the host while it runs.
struct House {
    options: Options,
    personalities: Personalities,
    manager: Manager,
    collector: Collector,
    prober: Prober,
    intents: Intents,
    requests: mpsc::Receiver<HostRequest>,
    reloading: Arc<tokio::sync::Mutex<()>>,
    shutdown_timeout: Duration,
    /// Ends the API server.
    close_api: oneshot::Sender<()>,
    api: tokio::task::JoinHandle<()>,
    store: Option<StateStore>,
    rebirth: Rebirth,
    /// A program for the next life is being looked for.
    fit: Option<mpsc::Receiver<Fit>>,
    watchdog: watchdog::Place,
}

/// Boots the host, or goes on with it, runs it, and stops its services. Returns when none is left.
///
/// # Errors
/// When not even children can be made or signals be read: then there is nothing that PID 1 could do.
pub async fn run(
    options: Options,
    sequence: Sequence,
    rebirth: Rebirth,
    past: Option<Past>,
    arrival: Arrival,
) -> Result<Ended, String> {
    let binary = Arc::new(crate::memory::exe_fd().map_err(|error| format!("/proc/self/exe: {error}"))?);
    let intents = Intents::default();
    let reaper = Reaper::default();
    let signals = Signals::new(options.mode).map_err(|error| format!("signalfd: {error}"))?;
    let (reload, reloads) = mpsc::channel(1);
    tokio::spawn(listen(signals, reaper.clone(), intents.clone(), reload));
    let life = Life { options, sequence: Arc::new(sequence), rebirth, binary, intents, reaper, arrival };
    match past {
        Some(past) => life.go_on(past, reloads).await,
        None => life.begin(reloads).await,
    }
}

/// PID 1 between two of its executions.
struct Life {
    options: Options,
    sequence: Arc<Sequence>,
    rebirth: Rebirth,
    binary: Arc<OwnedFd>,
    intents: Intents,
    reaper: Reaper,
    arrival: Arrival,
}

impl Life {
    /// The first life: the host boots.
    async fn begin(self, reloads: mpsc::Receiver<String>) -> Result<Ended, String> {
        let Life { options, sequence, rebirth, binary, intents, reaper, arrival } = self;
        // The kernel's file systems are mounted by children that have no cgroup yet: cgroup2 is one of those.
        let early = personalities(&binary, &rebirth, None, None)?;
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

        let mut foundation = Foundation::lay(&options.runtime_dir);
        let cgroups = foundation.cgroups();
        let personalities = personalities(&binary, &rebirth, cgroups, foundation.store.as_ref())?;
        reaper.set(&personalities.processes, foundation.store.as_ref());
        let loaded = tokio::select! {
            loaded = personalities.load(&options.config, options.mode) => loaded,
            _ = intents.asked() => Loaded::default(),
        };
        if failure.is_none() && options.mode == Mode::Machine && intents.current().is_none() {
            let launcher: Arc<dyn crate::task::Launcher> = Arc::new(personalities.clone());
            let watchdog =
                foundation.watchdog.task(loaded.machine.watchdog.clone(), foundation.store.clone());
            let phases = boot::machine::configured(&options, &loaded.machine, launcher, watchdog);
            failure = tokio::select! {
                result = sequence.run_all(phases) => result.err(),
                _ = intents.asked() => None,
            };
        }

        if failure.is_none() {
            // From here on a next life goes on; before, it does the boot again.
            foundation.write(Kind::Boot, &*sequence.report().borrow());
            foundation.write(Kind::Rebirth, &rebirth);
        }
        make_notify_directory(&notify_directory(&options.runtime_dir));
        let house = open(options, personalities, intents, &loaded, &sequence, foundation, rebirth)?;
        house.watchdog.events().iter().for_each(|event| house.manager.host_event(event));
        house.tell_of(&arrival);
        house.begin(loaded);
        match &failure {
            Some(failure) => house.manager.host_event(&failure.to_string()),
            None => {
                if house.intents.current().is_none() {
                    house.manager.begin();
                }
                house.watch_boot(&sequence);
            }
        }
        Ok(serve(house, reloads, failure).await)
    }
}

fn personalities(
    binary: &Arc<OwnedFd>,
    rebirth: &Rebirth,
    cgroups: Option<CgroupRoot>,
    store: Option<&StateStore>,
) -> Result<Personalities, String> {
    for warning in cgroups.iter().flat_map(|root| root.warnings()) {
        tracing::warn!("{warning}");
    }
    let record = store.and_then(|store| {
        let record = store.spawn_record();
        record.map_err(|error| tracing::error!("children that are being made are not recorded: {error}")).ok()
    });
    let options = ProcessOptions {
        limits: rebirth.limits.clone(),
        oom_score: rebirth.oom_score,
        cgroups,
        record,
        ..ProcessOptions::default()
    };
    let processes = Processes::new(options).map_err(|error| error.to_string())?;
    Ok(Personalities { processes, binary: Arc::clone(binary) })
}

/// All that was read but the services, of which each has a paper of its own.
fn configuration_of(loaded: &Loaded) -> Loaded {
    let mut configuration = loaded.clone();
    configuration.services.clear();
    configuration
}

fn write_configuration(store: &Option<StateStore>, configuration: &Loaded) {
    if let Some(store) = store {
        store.write(Kind::Configuration, "", configuration);
    }
}

/// The group that may connect to the sockets: kelson-apid is in it. `None`: PID 1 is not root, and cannot give them away.
fn socket_group(loaded: &Loaded) -> Option<u32> {
    nix::unistd::geteuid().is_root().then(|| loaded.api_group.unwrap_or(apid::USER))
}

/// The log of who changed what. Without it the calls are served all the same, and are in the kernel log.
fn audit(collector: &Collector, rebirth: &Rebirth) -> Audit {
    let options = LogOptions { max_size: 1 << 20, max_files: 5, console: false };
    let life = rebirth.count.saturating_add(rebirth.crashes).saturating_add(1);
    let pipes = collector.pipes(AUDIT_LOG, u64::from(life), options);
    pipes.and_then(Audit::new).unwrap_or_else(|error| {
        tracing::error!("who changes what is not in the log {AUDIT_LOG}: {error}");
        Audit::default()
    })
}

/// Makes the Manager, the log and the API. There are no services yet.
fn open(
    options: Options,
    personalities: Personalities,
    intents: Intents,
    loaded: &Loaded,
    sequence: &Sequence,
    mut foundation: Foundation,
    rebirth: Rebirth,
) -> Result<House, String> {
    let runtime = options.runtime_dir.clone();
    let (store, events) = (foundation.store.clone(), foundation.events.clone());
    for complaint in &options.complaints {
        events.host(complaint);
    }
    let group = socket_group(loaded);
    let launcher = logd::LogdLauncher {
        processes: personalities.processes.clone(),
        binary: Arc::clone(&personalities.binary),
        runtime_dir: runtime.clone(),
        group,
        resources: loaded
            .machine
            .builtin(logd::NAME)
            .and_then(|logd| logd.resources.clone())
            .unwrap_or_default(),
    };
    let (keeper, logs) = (foundation.keeper(), std::mem::take(&mut foundation.logs));
    let (collector, driver, reports) =
        Collector::resume(Arc::new(launcher), log_directory(&options), keeper, logs)
            .map_err(|error| format!("the log collector: {error}"))?;
    tokio::spawn(driver);
    let (probes, of_probes) = probes(&personalities, &loaded.machine);
    let prober = probes.prober.clone();
    let notify_directory = notify_directory(&runtime);
    let registry = Registry::default();
    let images = ImageStore::new(
        unpacker(&options, &personalities, &loaded.machine),
        events.clone(),
        registry.clone(),
    );
    let runners = Arc::new(Runners {
        processes: personalities.processes.clone(),
        binary: Arc::clone(&personalities.binary),
        containerd: Containerd::at(&containerd::socket(&runtime)),
        images: Arc::new(images.clone()),
        runtime_dir: Arc::from(runtime.as_path()),
        probes,
    });
    let (groups, asked) = Groups::new();
    let surroundings = Arc::new(Surroundings {
        events: events.clone(),
        store: store.clone(),
        registry,
        sources: Sources {
            paths: Paths::new(Arc::new(personalities.clone())),
            network: Network::new(),
            clock: Clock::new(),
        },
        runners: runners.clone(),
        logs: Arc::new(logd::Pipes(collector.clone())),
        notify_directory,
        groups,
        turns: Arc::new(tokio::sync::Semaphore::new(TURNS)),
        origin: Instant::now().checked_sub(sequence.elapsed()).unwrap_or_else(Instant::now),
    });
    let manager = Manager::new(surroundings, runners);
    tokio::spawn(groups::coordinate(manager.clone(), asked));
    let health = NodeHealth::of(&manager, loaded.machine.health);
    logd::show(&manager, &events, collector.clone(), reports);
    probe::show(&manager, &events, prober.clone(), of_probes);
    let (sender, requests) = mpsc::channel(16);
    let host = Host {
        requests: sender,
        boot: sequence.report(),
        mode: options.mode.name(),
        started: SystemTime::now().checked_sub(sequence.elapsed()).unwrap_or_else(SystemTime::now),
        reexecs: rebirth.count,
        crashes: rebirth.crashes,
    };
    let (close_api, closed) = oneshot::channel::<()>();
    let socket = runtime.join("init.sock");
    // Without it the host runs on all the same.
    let listener = foundation.listener(&socket, group);
    let (anew, listeners) = mpsc::channel(1);
    let server = ServerOptions {
        socket: socket.clone(),
        manager: manager.clone(),
        images,
        inspector: Inspector::new(Arc::new(InspectLauncher(personalities.helpers(INSPECT)))),
        health,
        host,
        apid_uid: Some(apid::USER),
        group,
        audit: audit(&collector, &rebirth),
        listeners,
    };
    let doors = Doors {
        socket: socket.clone(),
        group,
        store: store.clone(),
        collector: collector.clone(),
        events: events.clone(),
        listeners: anew,
    };
    let api = tokio::spawn(async move {
        let shutdown = async {
            let _ = closed.await;
        };
        let served = async {
            let listener = listener?;
            let ours = foundation::for_server(&listener).map_err(|error| error.to_string())?;
            tokio::select! {
                served = server::serve_on(ours, server, shutdown) => served.map_err(|error| error.to_string()),
                () = doors.keep(listener) => Ok(()),
            }
        };
        if let Err(error) = served.await {
            tracing::error!("the API is not served: {error}");
        }
        // Clients are told "not there" at once, and not by a socket that nobody serves.
        let _ = std::fs::remove_file(socket);
    });
    if let Some(store) = store.clone() {
        let events = events.clone();
        tokio::spawn(store.clone().keep_up(move |text| _ = events.host(text)));
        intents.remember_in(store);
    }
    Ok(House {
        options,
        personalities,
        manager,
        collector,
        prober,
        intents,
        requests,
        reloading: Arc::default(),
        shutdown_timeout: loaded.machine.shutdown_timeout,
        close_api,
        api,
        store,
        rebirth,
        fit: None,
        watchdog: foundation.watchdog,
    })
}

/// What asks network checks, and what is told of it.
fn probes(
    personalities: &Personalities,
    machine: &MachineSpec,
) -> (probe::Probes, mpsc::Receiver<kelson_probe::Report>) {
    let networks = probe::Networks::default();
    let Personalities { processes, binary } = personalities.clone();
    let launcher = probe::ProbeLauncher::new(processes, binary, machine, networks.clone());
    let (prober, driver, reports) = Prober::new(Arc::new(launcher));
    tokio::spawn(driver);
    (probe::Probes { prober, networks }, reports)
}

/// What unpacks images: the command line's folder of archives wins over the machine file's.
fn unpacker(options: &Options, personalities: &Personalities, machine: &MachineSpec) -> Unpacker {
    let launcher = UnpackLauncher(personalities.helpers(UNPACK));
    let folder = options.images.as_ref().map(|folder| vec![folder.clone()]);
    let options = UnpackerOptions {
        images: folder.unwrap_or_else(|| machine.images.clone()),
        containerd_socket: containerd::socket(&options.runtime_dir),
        runtime_dir: options.runtime_dir.clone(),
        state_dir: options.state_dir.clone(),
    };
    Unpacker::new(Arc::new(launcher), options)
}

/// The built-in service `containerd`, with what it finds when it starts.
fn containerd_spec(options: &Options, machine: &MachineSpec, manager: &Manager) -> ServiceSpec {
    let runtime = &options.runtime_dir;
    if let Err(error) = containerd::write_configuration(runtime, &options.state_dir) {
        let folder = containerd::folder(runtime);
        manager.host_event(&format!("containerd cannot start: {}: {error}", folder.display()));
    }
    if options.mode == Mode::Machine
        && let Err(error) = containerd::link(Path::new(containerd::USUAL_FOLDER), runtime)
    {
        tracing::warn!("{}: {error}; tools need --address", containerd::USUAL_FOLDER);
    }
    containerd::spec(machine, runtime, boot::settings::files_for_child(containerd::FILES))
}

fn log_directory(options: &Options) -> PathBuf {
    options.log_dir.clone().unwrap_or_else(|| PathBuf::from("/var/log/kelson"))
}

fn notify_directory(runtime: &Path) -> PathBuf {
    runtime.join("notify")
}

/// Empty, whatever an earlier host has left there.
fn make_notify_directory(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
    if let Err(error) = kelson_services::service_runner::notify::make_folder(path) {
        tracing::error!("{}: {error}; services with readiness: notify cannot start", path.display());
    }
}

/// Answers until the host is to end, then ends all services.
async fn serve(mut house: House, mut reloads: mpsc::Receiver<String>, failure: Option<BootFailure>) -> Ended {
    if failure.is_none() {
        let intents = house.intents.clone();
        let asked = intents.asked();
        tokio::pin!(asked);
        loop {
            tokio::select! {
                biased;
                intent = &mut asked => {
                    house.manager.host_event(&format!("{}: asked for by {}", verb(intent.action), intent.reason));
                    break;
                }
                Some(request) = house.requests.recv() => house.answer(request),
                Some(fit) = async { match &mut house.fit { Some(fit) => fit.recv().await, None => None } } => house.reborn(fit).await,
                Some(by) = reloads.recv() => {
                    house.manager.host_event(&format!("reading the files again: asked for by {by}"));
                    house.reload(None);
                }
            }
        }
    }
    let deadline = Instant::now().checked_add(house.shutdown_timeout).unwrap_or_else(Instant::now);
    let watchdog = house.watchdog.get().cloned();
    if let Some(watchdog) = &watchdog {
        let patience = PROBE_PATIENCE.saturating_add(LOGD_PATIENCE).saturating_add(LAST_WORDS);
        watchdog.due("stopping the services", house.shutdown_timeout.saturating_add(patience));
    }
    let (manager, collector, prober) = (house.manager.clone(), house.collector.clone(), house.prober.clone());
    let stopping = async {
        let stopped = manager.stop_all(deadline, &[apid::NAME]).await;
        if stopped.given_up.is_empty() {
            manager.host_event("all services are down");
        }
        // All checks have ended with their runs.
        prober.shutdown(Instant::now().checked_add(PROBE_PATIENCE).unwrap_or(deadline)).await;
        collector.shutdown(Instant::now().checked_add(LOGD_PATIENCE).unwrap_or(deadline)).await;
    };
    tokio::pin!(stopping);
    loop {
        tokio::select! {
            () = &mut stopping => break,
            Some(request) = house.requests.recv() => house.answer(request),
        }
    }
    if let Some(intent) = house.intents.current() {
        manager.host_event(&format!(
            "{}: services and logd have stopped, the rest follows",
            verb(intent.action)
        ));
    }
    manager.close_events();
    let _ = house.close_api.send(());
    let _ = tokio::time::timeout(LAST_WORDS, house.api).await;
    Ended { intents: house.intents, personalities: house.personalities, failure, watchdog }
}

impl House {
    /// Takes in all services of a host that boots. Those that are known already stay as they are.
    fn begin(&self, mut loaded: Loaded) {
        let (manager, runtime) = (&self.manager, &self.options.runtime_dir);
        let configuration = configuration_of(&loaded);
        for diagnostic in loaded.diagnostics.iter().filter(|diagnostic| diagnostic.service.is_none()) {
            manager.host_event(&diagnostic.to_string());
        }
        let unknown = |name: &str| manager.get(name).is_none();
        let bounded = self.options.mode == Mode::Machine;
        let door = apid::spec(&loaded.machine, runtime, socket_group(&loaded), bounded);
        if let Some(spec) = door.filter(|spec| unknown(&spec.name)) {
            manager.add(Arc::new(spec), true);
        }
        if loaded.containerd && unknown(containerd::NAME) {
            manager.add(Arc::new(containerd_spec(&self.options, &loaded.machine, manager)), true);
        }
        loaded.services.retain(|spec| unknown(&spec.name));
        manager.take_in(loaded);
        // Written down after all services are: a life that does not find it takes in what is missing.
        write_configuration(&self.store, &configuration);
    }

    /// Tells of the crash that this life comes after.
    fn tell_of(&self, arrival: &Arrival) {
        if let Some(crash) = &arrival.crash {
            let told = report::goes_on(crash, arrival.crashes, self.options.crash_limit);
            self.manager.host_event(&told);
            if !crash.frames.is_empty() {
                self.manager.host_event(&report::backtrace(crash));
            }
            arrival.told();
        }
    }

    /// Says when the boot is over.
    fn watch_boot(&self, sequence: &Arc<Sequence>) {
        let (manager, sequence, store) = (self.manager.clone(), Arc::clone(sequence), self.store.clone());
        tokio::spawn(async move {
            manager.settled().await;
            sequence.finished();
            if let Some(store) = store {
                store.write(Kind::Boot, "", &*sequence.report().borrow());
            }
            manager.host_event(&format!(
                "the boot is over after {}: every service that it starts is up or down",
                kelson_services::service_runner::words::duration(sequence.elapsed())
            ));
            crate::heap::give_back();
        });
    }

    fn answer(&mut self, request: HostRequest) {
        match request {
            HostRequest::Shutdown { action, reason, reply } => {
                let _ = reply.send(self.intents.ask(action, &reason));
            }
            HostRequest::Reload { reply } => self.reload(Some(reply)),
            HostRequest::Reexec { reason, reply } => self.reexec(reason, reply),
        }
    }

    /// Reads the files again beside all else: their disk may be slow.
    fn reload(&self, reply: Option<oneshot::Sender<ReloadReport>>) {
        let (personalities, manager) = (self.personalities.clone(), self.manager.clone());
        let (options, turn) = (self.options.clone(), Arc::clone(&self.reloading));
        let store = self.store.clone();
        tokio::spawn(async move {
            // One after the other: the later reading must be the one that counts.
            let _turn = turn.lock().await;
            let loaded = personalities.load(&options.config, options.mode).await;
            // The first container has come: containers wait for it from their first moment on.
            if loaded.containerd && manager.get(containerd::NAME).is_none() {
                manager.bring_in(Arc::new(containerd_spec(&options, &loaded.machine, &manager)));
            }
            let configuration = configuration_of(&loaded);
            let report = manager.reload(loaded).await;
            write_configuration(&store, &configuration);
            crate::heap::give_back();
            manager.host_event(&summary(&report));
            if let Some(reply) = reply {
                let _ = reply.send(report);
            }
        });
    }
}

fn summary(report: &ReloadReport) -> String {
    let part = |what: &str, names: &[String]| match names.len() {
        0 => String::new(),
        _ => format!("; {what}: {}", names.join(", ")),
    };
    let mut text = format!(
        "the files were read again{}{}{}",
        part("started", &report.started),
        part("stopped", &report.stopped),
        part("changed, restart them to take it up", &report.changed)
    );
    for error in &report.errors {
        text.push_str("; ");
        text.push_str(error);
    }
    text
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
