//! Makes what serves the host: the log, the Manager, the API.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use kelson_api::server::{self, AUDIT_LOG, Audit, ServerOptions};
use kelson_conditions::Sources;
use kelson_image::{Unpacker, UnpackerOptions};
use kelson_runner::{CgroupRoot, Containerd};
use kelson_services::admission::Admission;
use kelson_services::builtins::{apid, containerd, logd, probe};
use kelson_services::collector::{Collector, LogOptions};
use kelson_services::groups::{self, Groups};
use kelson_services::host::Host;
use kelson_services::images::{ImageStore, UNPACK};
use kelson_services::inspect::{INSPECT, Inspector};
use kelson_services::manager::Manager;
use kelson_services::node_health::{HealthSpecs, NodeHealth};
use kelson_services::prober::Prober;
use kelson_services::runners::Runners;
use kelson_services::service_runner::gate::Registry;
use kelson_services::service_runner::host_context::{HostContext, TURNS};
use kelson_spec::{Loaded, MachineSpec, ServiceSpec};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::configuration::Configuration;
use super::context::Context;
use super::entrance;
use super::environment::{self, Environment};
use super::intent::Intents;
use super::later_mounts::keep_read_only;
use super::launchers::Personalities;
use super::listeners::Listeners;
use crate::boot::{self, Sequence};
use crate::options::{Mode, Options};
use crate::reexec::{self, ReexecState};

/// The group that may connect to the sockets: kelson-apid is in it. `None`: PID 1 is not root, and cannot give them away.
pub(super) fn socket_group(loaded: &Loaded) -> Option<u32> {
    nix::unistd::geteuid().is_root().then(|| loaded.api_group.unwrap_or(apid::USER))
}

/// The log of who changed what. Without it the calls are served all the same, and are in the kernel log.
fn audit(collector: &Collector) -> Audit {
    let options = LogOptions { max_size: 1 << 20, max_files: 5, rate_limit: None, console: false };
    // It is no service, and has no runs.
    let pipes = collector.pipes(AUDIT_LOG, 0, options);
    pipes.and_then(Audit::new).unwrap_or_else(|error| {
        tracing::error!("who changes what is not in the log {AUDIT_LOG}: {error}");
        Audit::default()
    })
}

/// Makes the Manager, the log and the API. There are no services yet.
pub(super) fn open(
    options: Options,
    personalities: Personalities,
    intents: Intents,
    loaded: &Loaded,
    sequence: &Sequence,
    mut environment: Environment,
    reexec_state: ReexecState,
) -> Result<Context, String> {
    let runtime = options.runtime_dir.clone();
    let (store, events) = (environment.store.clone(), environment.events.clone());
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
    let (descriptor_store, logs) = (environment.descriptor_store(), std::mem::take(&mut environment.logs));
    let (collector, driver, reports) =
        Collector::resume(Arc::new(launcher), log_directory(&options), descriptor_store, logs)
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
    let host_context = Arc::new(HostContext {
        events: events.clone(),
        store: store.clone(),
        registry,
        sources: Sources::new(Arc::new(personalities.clone())),
        runners: runners.clone(),
        logs: Arc::new(logd::Pipes(collector.clone())),
        notify_directory,
        groups,
        turns: Arc::new(tokio::sync::Semaphore::new(TURNS)),
        origin: Instant::now().checked_sub(sequence.elapsed()).unwrap_or_else(Instant::now),
    });
    let manager = Manager::new(host_context, runners);
    tokio::spawn(groups::coordinate(manager.clone(), asked));
    manager.set_groups(&loaded.groups);
    let specs = HealthSpecs::from(loaded);
    if let Some(warning) = entrance::closed(&runtime) {
        manager.warn(warning);
    }
    let health = match environment.health.take() {
        Some(past) => NodeHealth::recovering(&manager, specs, past),
        None => NodeHealth::of(&manager, specs),
    };
    logd::show(&manager, &events, collector.clone(), reports);
    probe::show(&manager, &events, prober.clone(), of_probes);
    let (sender, requests) = mpsc::channel(16);
    let host = Host {
        requests: sender,
        boot: sequence.report(),
        mode: options.mode.name(),
        started: SystemTime::now()
            .checked_sub(sequence.elapsed().saturating_add(reexec::suspended()))
            .unwrap_or_else(SystemTime::now),
        reexecs: reexec_state.count,
        crashes: reexec_state.crashes,
    };
    let (close_api, closed) = oneshot::channel::<()>();
    let socket = runtime.join("init.sock");
    // Without it the host runs on all the same.
    let listener = environment.listener(&socket, group);
    let (renewed, listeners) = mpsc::channel(1);
    let admission = Admission::new(manager.clone(), personalities.processes.cgroups().cloned(), apid::USER);
    let judge = admission.clone();
    collector.admit_by(Arc::new(move |socket| judge.may_read_logs(socket)));
    let server = ServerOptions {
        socket: socket.clone(),
        manager: manager.clone(),
        images,
        inspector: Inspector::new(
            Arc::new(personalities.helpers(INSPECT)),
            personalities.processes.cgroups().map(CgroupRoot::path),
        ),
        health: health.clone(),
        host,
        admission,
        group,
        audit: audit(&collector),
        listeners,
    };
    let listeners = Listeners {
        socket: socket.clone(),
        group,
        store: store.clone(),
        collector: collector.clone(),
        events: events.clone(),
        listeners: renewed,
    };
    let api = tokio::spawn(async move {
        let shutdown = async {
            let _ = closed.await;
        };
        let served = async {
            let listener = listener?;
            let ours = environment::for_server(&listener).map_err(|error| error.to_string())?;
            tokio::select! {
                served = server::serve_on(ours, server, shutdown) => served.map_err(|error| error.to_string()),
                () = listeners.keep(listener) => Ok(()),
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
    let later_mounts = keep_read_only(manager.clone(), personalities.clone());
    Ok(Context {
        options,
        personalities,
        manager,
        later_mounts,
        collector,
        prober,
        intents,
        requests,
        reloading: Arc::default(),
        configuration: Configuration::new(loaded, store.clone()),
        health,
        close_api,
        api,
        store,
        reexec_state,
        fit: None,
        watchdog: environment.watchdog,
    })
}

/// What asks network checks, and what is told of it.
fn probes(
    personalities: &Personalities,
    machine: &MachineSpec,
) -> (probe::Probes, mpsc::Receiver<kelson_services::prober::Report>) {
    let networks = probe::Networks::default();
    let Personalities { processes, binary } = personalities.clone();
    let launcher = probe::ProbeLauncher::new(processes, binary, machine, networks.clone());
    let (prober, driver, reports) = Prober::new(Arc::new(launcher));
    tokio::spawn(driver);
    (probe::Probes { prober, networks }, reports)
}

/// What unpacks images: the command line's folder of archives wins over the machine file's.
fn unpacker(options: &Options, personalities: &Personalities, machine: &MachineSpec) -> Unpacker {
    let launcher = personalities.helpers(UNPACK);
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
pub(super) fn containerd_spec(options: &Options, machine: &MachineSpec, manager: &Manager) -> ServiceSpec {
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

pub(super) fn notify_directory(runtime: &Path) -> PathBuf {
    runtime.join("notify")
}

/// Empty, whatever an earlier host has left there.
pub(super) fn make_notify_directory(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
    if let Err(error) = kelson_services::service_runner::notify::make_folder(path) {
        tracing::error!("{}: {error}; services with readiness: notify cannot start", path.display());
    }
}
