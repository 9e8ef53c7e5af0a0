//! The parts that serve the host while it runs, and the requests to them.

use std::sync::Arc;

use kelson_services::ServicesError;
use kelson_services::builtins::{containerd, program};
use kelson_services::collector::Collector;
use kelson_services::fleet::{self, Fleet};
use kelson_services::host::{HostRequest, Resumed, ResumedReport, ShutdownAction};
use kelson_services::manager::Manager;
use kelson_services::node_health::NodeHealth;
use kelson_services::prober::Prober;
use kelson_services::state_store::{Kind, StateStore};
use kelson_services::timers::Timers;
use kelson_services::volumes::Volumes;
use kelson_spec::Loaded;
use kelson_spec::applied::Question;
use kelson_spec::features::{Feature, MissingFeature, OWN};
use tokio::sync::{mpsc, oneshot};

use super::absent_disks::{AbsentDisks, mount_as_they_come};
use super::api::Api;
use super::builtin::{containerd_spec, program_specs};
use super::configuration::Configuration;
use super::encrypted_disks::EncryptedDisks;
use super::files::Files;
use super::intent::Intents;
use super::kexec::Kexec;
use super::later_mounts::LaterMounts;
use super::launchers::Personalities;
use super::reexec::Reexec;
use super::renewal::Renewal;
use super::secrets::Secrets;
use crate::boot::Sequence;
use crate::boot::absent::Absent;
use crate::boot::machine::{HOSTS, MACHINE_ID};
use crate::crash::{BootReason, report};
use crate::options::{Mode, Options};
use crate::watchdog;

/// Everything that serves the host while it runs.
pub(super) struct Context {
    pub(super) options: Options,
    pub(super) personalities: Personalities,
    pub(super) manager: Manager,
    pub(super) later_mounts: LaterMounts,
    /// What the boot did not wait for any longer.
    pub(super) absent: Absent,
    pub(super) absent_disks: AbsentDisks,
    pub(super) collector: Collector,
    pub(super) prober: Option<Prober>,
    pub(super) timers: Option<&'static Timers>,
    pub(super) volumes: Option<Volumes>,
    pub(super) fleet: Fleet,
    pub(super) intents: Intents,
    pub(super) requests: mpsc::Receiver<HostRequest>,
    /// The configuration files, while the host runs.
    pub(super) files: Files,
    pub(super) secrets: Secrets,
    pub(super) renewing: Arc<tokio::sync::Mutex<()>>,
    /// The configuration that the host runs by.
    pub(super) configuration: Configuration,
    pub(super) health: NodeHealth,
    pub(super) api: Api,
    pub(super) store: Option<StateStore>,
    pub(super) reexec: Reexec,
    pub(super) watchdog: watchdog::Place,
}

impl Context {
    /// Takes in all services of a host that boots. Those that are known already stay as they are.
    pub(super) async fn begin(&self, mut loaded: Loaded) {
        let manager = &self.manager;
        for diagnostic in loaded.diagnostics.iter().filter(|diagnostic| diagnostic.service.is_none()) {
            manager.host_event(&diagnostic.to_string());
        }
        loaded.warnings.iter().for_each(|warning| manager.host_event(&warning.to_string()));
        let unknown = |name: &str| manager.get(name).is_none();
        for spec in program_specs(&self.options, &loaded).into_iter().filter(|spec| unknown(&spec.name)) {
            manager.add(Arc::new(spec), true);
        }
        if loaded.containerd && unknown(containerd::NAME) {
            manager.add(Arc::new(containerd_spec(&self.options, &loaded.machine, manager)), true);
        }
        loaded.services.retain(|spec| unknown(&spec.name));
        manager.take_in(loaded).await;
        self.later_mounts.services.notify_one();
        // Written down after all services are: a life that does not find it takes in what is missing.
        self.configuration.write();
    }

    /// A built-in service from PID 1's program of another version gives way to this version's. Clients of apid connect
    /// again.
    pub(super) fn replace_programs(&self, loaded: &Loaded) {
        for spec in program_specs(&self.options, loaded) {
            let runs = self.manager.get(&spec.name).and_then(|now| now.spec);
            let Some(old) = runs.as_deref().and_then(program::other_version) else { continue };
            let why = format!("the upgrade of PID 1 replaces version {old} of its program");
            self.manager.replace(Arc::new(spec), &why);
        }
    }

    /// Tells of the crash that this incarnation comes after.
    pub(super) fn tell_of(&self, boot_reason: &BootReason) {
        if let Some(crash) = &boot_reason.crash {
            let told = report::goes_on(crash, boot_reason.crashes, self.options.crash_limit);
            self.manager.host_event(&told);
            if !crash.frames.is_empty() {
                self.manager.host_event(&report::backtrace(crash));
            }
            boot_reason.reported();
        }
    }

    /// From now on what is up is registered.
    pub(super) fn begin_fleet(&self) {
        if fleet::SUPPORTED {
            self.fleet.begin(&self.manager, &self.health);
        }
    }

    /// Mounts the disks that the boot did not wait for any longer, as they come.
    pub(super) fn await_disks(&mut self) {
        if const { !OWN.has(Feature::Disks) } {
            return;
        }
        let (tasks, manager) = (self.personalities.tasks(), self.manager.clone());
        self.absent_disks = mount_as_they_come(self.absent.clone(), tasks, manager, self.store.clone());
    }

    /// Says when the boot is over.
    pub(super) fn watch_boot(&self, sequence: &Arc<Sequence>) {
        let (manager, sequence, store) = (self.manager.clone(), Arc::clone(sequence), self.store.clone());
        kelson_sys::spawn(async move {
            manager.settled().await;
            sequence.finished();
            if let Some(store) = store {
                store.write(Kind::Boot, "", &*sequence.report().borrow());
            }
            manager.host_event(&format!(
                "the boot is over after {}: every service that it starts is up or down",
                kelson_sys::units::duration(sequence.elapsed())
            ));
            crate::heap::give_back();
        });
    }

    pub(super) fn answer(&mut self, request: HostRequest) {
        match request {
            HostRequest::Shutdown { action, reason, reply } => {
                self.end(action, reason, reply);
            }
            HostRequest::Reload { reply } => self.files.reload(Some(reply)),
            HostRequest::Apply { apply, reply } => self.files.apply(apply, reply),
            HostRequest::Confirm { generation, asked_by, reply } => {
                self.files.confirm(generation, asked_by, reply);
            }
            HostRequest::Configuration { generation, sources, reply } => {
                self.files.get(Question::Get { generation, sources }, reply);
            }
            HostRequest::History { reply } => self.files.history(reply),
            request @ (HostRequest::SetSecret { .. }
            | HostRequest::ListSecrets { .. }
            | HostRequest::RemoveSecret { .. }) => self.secrets.answer(request),
            HostRequest::Reexec { reason, reply } => self.reexec.ask(reason, reply),
            HostRequest::Resumed { resumed, reply } => self.renew(resumed, reply),
            HostRequest::UnlockDisk { reply, .. } if const { !OWN.has(Feature::Disks) } => {
                let _ = reply.send(Err(MissingFeature(Feature::Disks).into()));
            }
            HostRequest::RecoveryKey { reply, .. } if const { !OWN.has(Feature::Disks) } => {
                let _ = reply.send(Err(MissingFeature(Feature::Disks).into()));
            }
            HostRequest::UnlockDisk { name, key, asked_by, reply } => {
                let disks = self.encrypted_disks();
                kelson_sys::spawn(async move {
                    // The caller may have gone away.
                    let _ = reply.send(disks.unlock(&name, &key, &asked_by).await);
                });
            }
            HostRequest::RecoveryKey { name, forget, reply } => {
                let disks = self.encrypted_disks();
                kelson_sys::spawn(async move {
                    let _ = reply.send(disks.recovery_key(&name, forget).await);
                });
            }
        }
    }

    fn encrypted_disks(&self) -> EncryptedDisks {
        EncryptedDisks {
            mode: self.options.mode,
            tasks: self.personalities.tasks(),
            manager: self.manager.clone(),
            store: self.store.clone(),
            absent: self.absent.clone(),
            machine: self.configuration.machine(),
        }
    }

    /// Begins the end of the host. A new kernel is loaded beside all else: its disk may be slow.
    fn end(
        &self,
        action: ShutdownAction,
        reason: String,
        reply: oneshot::Sender<Result<String, ServicesError>>,
    ) {
        if action != ShutdownAction::Kexec {
            let _ = reply.send(Ok(self.intents.ask(action, &reason)));
            return;
        }
        if const { !OWN.has(Feature::Kexec) } {
            let _ = reply.send(Err(MissingFeature(Feature::Kexec).into()));
            return;
        }
        let kexec = Kexec {
            mode: self.options.mode,
            tasks: self.personalities.tasks(),
            intents: self.intents.clone(),
            spec: self.configuration.machine().kexec,
            has_watchdog: self.watchdog.get().is_some(),
        };
        let manager = self.manager.clone();
        kelson_sys::spawn(async move {
            // The caller may have gone away.
            let _ = reply.send(kexec.ask(&reason, |text| manager.host_event(text)).await);
        });
    }

    /// Renews the machine's identity beside all else: a service may take long to be notified.
    fn renew(&self, resumed: Resumed, reply: oneshot::Sender<Result<ResumedReport, ServicesError>>) {
        let renewal = Renewal {
            tasks: self.personalities.tasks(),
            manager: self.manager.clone(),
            transient: self.options.runtime_dir.join(MACHINE_ID),
            hosts: self.options.runtime_dir.join(HOSTS),
        };
        let refused = if self.options.mode == Mode::Container {
            Some("this is a container, and its kernel is the host's: tell the host of the resume")
        } else if self.intents.current().is_some() {
            Some("the machine is stopping")
        } else {
            None
        };
        let turn = Arc::clone(&self.renewing);
        kelson_sys::spawn(async move {
            let report = match refused {
                Some(why) => Err(ServicesError::NotNow(why.to_owned())),
                None => {
                    // A second call waits for the first.
                    let _turn = turn.lock().await;
                    renewal.run(&resumed).await
                }
            };
            // The caller may have gone away.
            let _ = reply.send(report);
        });
    }
}
