//! Makes what serves the host, in this order: the log, the probes, the images, the Manager, the API.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use kelson_api::server::{ServerOptions, Vsock};
use kelson_conditions::{Network, Registered, Sources, Templates};
use kelson_proto::call::LOG_SOCKET;
use kelson_services::admission::Admission;
use kelson_services::builtins::{self, apid, logd};
use kelson_services::collector::{Collector, Report};
use kelson_services::events::EventLog;
use kelson_services::fleet::{self, Fleet};
use kelson_services::groups::{self, Groups};
use kelson_services::host::{Host, HostRequest};
use kelson_services::images::ImageStore;
use kelson_services::manager::Manager;
use kelson_services::node_health::{HealthSpecs, NodeHealth};
use kelson_services::run_end::RunEnd;
use kelson_services::runners::Runners;
use kelson_services::service_runner::gate::Registry;
use kelson_services::service_runner::host_context::{HostContext, RunnerFactory, TURNS};
use kelson_services::volumes::Volumes;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::{Loaded, secrets};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::absent_disks::AbsentDisks;
use super::api::{Api, audit};
use super::builtin::socket_group;
use super::configuration::Configuration;
use super::context::Context;
use super::entrance;
use super::environment::Environment;
use super::files::Files;
use super::incarnation::Incarnation;
use super::later_mounts::keep_read_only;
use super::launchers::Personalities;
use super::listeners::Listeners;
use super::parts::{self, Probing};
use super::reexec::Reexec;
use super::secret_runner::SecretRunners;
use super::secrets::Secrets;
use super::view_runner::UnitRunners;
use crate::boot::absent::Absent;
use crate::error::{At as _, Result};
use crate::options::{Options, Rescue, RuntimePlace};
use crate::reexec;

impl Incarnation {
    /// There are no services yet.
    pub(super) fn open(
        &self,
        personalities: Personalities,
        mut environment: Environment,
        loaded: &Loaded,
    ) -> Result<Context> {
        let options = &self.options;
        let (store, events) = (environment.store.clone(), environment.events.clone());
        options.complaints.iter().for_each(|complaint| _ = events.host(complaint));
        if let (Some(Rescue::NoRoot(_)), Some(wait)) = (&options.rescue, options.panic) {
            self.intents.reboot_after(wait, "kelson.panic: this machine has no root");
        }
        let (collector, reports) = log(options, &personalities, &mut environment, loaded)?;
        let probing = Probing::begin(&personalities, &loaded.machine);
        let registry = Registry::default();
        let (volumes, volume_reports) = parts::volumes(options, &personalities, &loaded.machine).unzip();
        let (fleet, fleet_reports) = parts::fleet(options, &personalities, &loaded.machine, &registry);
        let parts = parts::containers(options, &personalities, &loaded.machine, &events, &registry);
        let images = parts.as_ref().map(|parts| parts.images.clone());
        let (containers, images_api) = parts.map(|parts| (parts.runners, parts.api)).unzip();
        let runners = Arc::new(Runners {
            processes: personalities.processes.clone(),
            binary: Arc::clone(&personalities.binary),
            containers,
            probes: probing.probes(),
        });
        let logs = logd::Pipes { collector: collector.clone(), stdout: loaded.machine.stdout };
        let manager = self.manager(
            &personalities,
            &environment,
            registry,
            (runners, volumes.clone(), images, fleet.clone()),
            logs,
            loaded,
        );
        manager.set_groups(&loaded.groups);
        if let Some(warning) = entrance::closed(&options.runtime_dir) {
            manager.warn(warning);
        }
        let specs = HealthSpecs::from(loaded);
        let health = match environment.health.take() {
            Some(past) => NodeHealth::recovering(&manager, specs, past),
            None => NodeHealth::of(&manager, specs),
        };
        logd::show(&manager, &events, collector.clone(), reports);
        let prober = probing.show(&manager, &events);
        if let (Some(volumes), Some(reports)) = (volumes.clone(), volume_reports) {
            builtins::volumes::show(&manager, &events, volumes, reports);
        }
        if let Some(reports) = fleet_reports {
            builtins::fleet::show(&manager, &events, fleet.clone(), reports);
        }
        let timers = parts::timers(options, &personalities, &loaded.machine, &manager, &events);

        let (host, requests) = self.host(volumes.clone(), fleet.clone());
        let socket = options.runtime_dir.join("init.sock");
        let group = socket_group(loaded);
        let has_folder = options.runtime_place != RuntimePlace::Nowhere;
        let listener = has_folder.then(|| environment.listener(&socket, group));
        let (renewed, listeners) = mpsc::channel(1);
        let cgroups = personalities.processes.cgroups();
        let admission = Admission::new(manager.clone(), cgroups.cloned(), apid::USER, options.api);
        let judge = admission.clone();
        collector.admit_by(Arc::new(move |socket| judge.may_read_logs(socket)));
        let server = ServerOptions {
            manager: manager.clone(),
            parts: images_api
                .into_iter()
                .chain(parts::of_api(&personalities, &host, timers, volumes.clone(), &fleet))
                .collect(),
            health: health.clone(),
            host,
            admission,
            audit: audit(&collector),
            listeners,
            vsock: vsock(options, &events),
        };
        let listeners = Listeners {
            socket,
            group,
            store: store.clone(),
            collector: collector.clone(),
            events: events.clone(),
            intents: self.intents.clone(),
            listeners: renewed,
        };
        let api = Api::open(server, listeners, listener);

        if let Some(store) = store.clone() {
            kelson_sys::spawn(store.clone().keep_up(move |text| _ = events.host(text)));
            self.intents.remember_in(store);
        }
        let later_mounts = keep_read_only(manager.clone(), personalities.clone());
        let arranged = volumes.clone().map(|volumes| (volumes, cgroups.cloned()));
        let configuration = Configuration::new(loaded, store.clone(), timers, arranged);
        let files = Files {
            personalities: personalities.clone(),
            options: Arc::new(options.clone()),
            manager: manager.clone(),
            configuration: configuration.clone(),
            health: health.clone(),
            later_mounts: Arc::clone(&later_mounts.services),
            intents: self.intents.clone(),
            store: store.clone(),
            turn: Arc::default(),
            trial: Arc::default(),
        };
        Ok(Context {
            options: options.clone(),
            later_mounts,
            absent: Absent::new(self.sequence.sender()),
            absent_disks: AbsentDisks::default(),
            files,
            secrets: Secrets {
                tasks: personalities.tasks(),
                manager: manager.clone(),
                state: options.state_dir.clone(),
                runtime: options.runtime_dir.clone(),
                turn: Arc::default(),
            },
            reexec: Reexec::new(
                personalities.clone(),
                manager.clone(),
                self.intents.clone(),
                store.clone(),
                self.reexec_state.clone(),
            ),
            personalities,
            manager,
            collector,
            prober,
            timers,
            volumes,
            fleet,
            intents: self.intents.clone(),
            requests,
            renewing: Arc::default(),
            configuration,
            health,
            api,
            store,
            watchdog: environment.watchdog,
        })
    }

    fn manager(
        &self,
        personalities: &Personalities,
        environment: &Environment,
        registry: Registry,
        (runners, volumes, images, fleet): (Arc<Runners>, Option<Volumes>, Option<ImageStore>, Fleet),
        logs: logd::Pipes,
        loaded: &Loaded,
    ) -> Manager {
        let (groups, asked) = Groups::new();
        let host_context = Arc::new(HostContext {
            events: environment.events.clone(),
            store: environment.store.clone(),
            registry,
            sources: Sources {
                registered: if fleet::SUPPORTED { fleet.registered() } else { Registered::default() },
                templates: if fleet::SUPPORTED { fleet.templates() } else { Templates::default() },
                network: Network::beside(&loaded.machine.container_network.bridge),
                secrets: Arc::from(self.options.state_dir.join(secrets::FOLDER)),
                runtime: Arc::from(self.options.runtime_dir.as_path()),
                facts: parts::facts(personalities),
                ..Sources::new(personalities.tasks())
            },
            runners: self.runners(personalities, (volumes, images, fleet), &runners),
            logs: Arc::new(logs),
            notify_directory: notify_directory(&self.options.runtime_dir),
            groups,
            run_end: RunEnd::new(loaded.machine.main.as_deref()),
            turns: Arc::new(tokio::sync::Semaphore::new(TURNS)),
            origin: Instant::now().checked_sub(self.sequence.elapsed()).unwrap_or_else(Instant::now),
        });
        let manager = Manager::new(host_context, runners);
        kelson_sys::spawn(groups::coordinate(manager.clone(), asked));
        manager
    }

    /// The makers of runners, also of those for which something is made.
    fn runners(
        &self,
        personalities: &Personalities,
        (volumes, images, fleet): (Option<Volumes>, Option<ImageStore>, Fleet),
        inner: &Arc<Runners>,
    ) -> Arc<dyn RunnerFactory> {
        let Options { state_dir, runtime_dir, .. } = &self.options;
        let mut runners: Arc<dyn RunnerFactory> = inner.clone();
        if const { OWN.has(Feature::Secrets) } {
            runners = Arc::new(SecretRunners {
                inner: runners,
                tasks: personalities.tasks(),
                state: state_dir.clone(),
                runtime: runtime_dir.clone(),
            });
        }
        if const { OWN.has(Feature::Units) } {
            let (tasks, runtime) = (personalities.tasks(), runtime_dir.clone());
            runners = Arc::new(UnitRunners { inner: runners, tasks, volumes, images, fleet, runtime });
        }
        runners
    }

    /// Opens the host's side of the API: its facts, and the requests to it.
    fn host(&self, volumes: Option<Volumes>, fleet: Fleet) -> (Host, mpsc::Receiver<HostRequest>) {
        let (sender, requests) = mpsc::channel(16);
        let age = self.sequence.elapsed().saturating_add(reexec::suspended());
        let boot: watch::Receiver<_> = self.sequence.report();
        let host = Host {
            requests: sender,
            boot,
            mode: self.options.mode.name(),
            features: OWN,
            started: SystemTime::now().checked_sub(age).unwrap_or_else(SystemTime::now),
            volumes,
            fleet: fleet::SUPPORTED.then_some(fleet),
            reexecs: self.reexec_state.count,
            crashes: self.reexec_state.crashes,
        };
        (host, requests)
    }
}

/// Opens the collector of the logs, and its reports.
fn log(
    options: &Options,
    personalities: &Personalities,
    environment: &mut Environment,
    loaded: &Loaded,
) -> Result<(Collector, mpsc::Receiver<Report>)> {
    let kind = logd::kind(&loaded.machine, &options.runtime_dir, socket_group(loaded));
    let launcher = personalities.helpers(kind);
    let directory = options.log_dir.clone().unwrap_or_else(|| PathBuf::from("/var/log/kelson"));
    let (descriptor_store, logs) = (environment.descriptor_store(), std::mem::take(&mut environment.logs));
    let (collector, driver, reports) =
        Collector::resume(launcher, directory, descriptor_store, logs).at("the log collector")?;
    kelson_sys::spawn(driver);
    Ok((collector, reports))
}

/// Opens the API's ports for the hypervisor's host, if init was started so. Without them the host runs on.
fn vsock(options: &Options, events: &EventLog) -> Option<Vsock> {
    let port = options.api?.port;
    match Vsock::bind(port, options.runtime_dir.join(LOG_SOCKET)) {
        Ok(vsock) => Some(vsock),
        Err(error) => {
            events.host(&format!("the API is not served at vsock:{port}: {}", vsock_problem(&error)));
            None
        }
    }
}

fn vsock_problem(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            "the kernel has no vsock; name the module of its transport in `modules` of the \
                                     machine file, such as vmw_vsock_virtio_transport"
                .to_owned()
        }
        Some(libc::EADDRINUSE) => "another process listens at the port or the next one".to_owned(),
        _ => error.to_string(),
    }
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
