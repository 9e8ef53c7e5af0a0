//! `probe`: asks the network checks of services.
//!
//! It is no ordinary service: the [`Prober`] starts `kelson-probe` while there is something to ask, replaces it when it
//! dies or freezes, and ends it after all services have. Whatever becomes of it, no service is restarted or loses its
//! health for it. Here it is started, as one who can do nothing but ask; shown like a service; and given the network
//! that a run has: the host's, or that of a container.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::prober::{Place, Prober, ProberStatus, Report, RunNetwork, Schedule, Sink};
use kelson_helper::{BoxFuture, Launched, Launcher, Start};
use kelson_runner::cgroup::Cgroup;
use kelson_runner::{Command, Processes, open_network};
use kelson_spec::MachineSpec;
use kelson_spec::service::{ContainerNetwork, Resources, ServiceSpec};
use tokio::sync::{mpsc, watch};

use crate::error::ServicesError;
use crate::events::EventLog;
use crate::health::network::{Network, Watched};
use crate::helpers::{arrange, launched};
use crate::manager::{ExternalService, Manager};
use crate::model::{Snapshot, State, wall};
use crate::service_runner::host_context::RunningProcess;

/// The name under which it is shown, and of its cgroup.
pub const NAME: &str = "probe";
/// The user that it runs as: nobody's.
const NOBODY: u32 = 65_534;
/// What it may use of memory where the machine file does not say: thousands of checks take a tenth of it.
const MEMORY_MAX: u64 = 128 << 20;
/// One thread a process, a process a network.
const PIDS_MAX: u64 = 4096;

/// Starts `kelson-probe` from PID 1's copy in memory, without any privilege, in the network that is asked for. All are
/// in one cgroup of their own: in that of a service they would be killed with it, and counted as its use.
pub struct ProbeLauncher {
    processes: Processes,
    binary: Arc<OwnedFd>,
    /// What their cgroup may use.
    resources: Resources,
    /// A limit that is not enforced is still to be reported; the default limits are not.
    tells: AtomicBool,
}

impl ProbeLauncher {
    /// `binary` is the binary itself, for `execveat`.
    pub fn new(processes: Processes, binary: Arc<OwnedFd>, machine: &MachineSpec) -> ProbeLauncher {
        let asked_for = machine.builtin(NAME).and_then(|probe| probe.resources.clone());
        let tells = AtomicBool::new(asked_for.is_some());
        let usual =
            Resources { memory_max: Some(MEMORY_MAX), pids_max: Some(PIDS_MAX), ..Resources::default() };
        ProbeLauncher { processes, binary, resources: asked_for.unwrap_or(usual), tells }
    }

    fn command(&self, start: Start) -> io::Result<Command> {
        let command = Command::from_descriptor(self.binary.try_clone()?, kelson_helper::probe::NAME);
        let mut command = arrange(command, start)
            .user(NOBODY, NOBODY, Vec::new())
            .bounding(Some(0))
            .no_new_privileges(true)
            .seccomp(Some(self.processes.default_filter(0)));
        if let Some(Ok(cgroup)) = self.processes.cgroups().map(|root| Cgroup::create(root, NAME))
            && let Ok(folder) = cgroup.folder()
        {
            // Where the last one was frozen, the next would be too.
            if let Err(error) = cgroup.thaw() {
                tracing::warn!("{error}");
            }
            let warnings = cgroup.limit(&self.resources);
            if self.tells.swap(false, Ordering::Relaxed) {
                warnings.iter().for_each(|warning| tracing::warn!("{NAME}: {warning}"));
            }
            command = command.cgroup(folder, NAME);
        }
        Ok(command)
    }
}

impl Launcher for ProbeLauncher {
    fn launch(&self, start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let command = self.command(start);
        let processes = self.processes.clone();
        Box::pin(async move {
            let child =
                processes.spawn(command?).await.map_err(|error| io::Error::other(error.to_string()))?;
            Ok(launched(child))
        })
    }
}

/// The prober as the services use it.
pub struct Probes(pub Prober);

impl Probes {
    /// Performs checks in the network of the host.
    pub fn host(&self) -> Arc<dyn Network> {
        Arc::new(NetworkOfRun { prober: self.0.clone(), place: Place::Host })
    }

    /// Performs checks in the network of this run.
    ///
    /// # Errors
    /// When the run has ended or its network cannot be entered.
    pub fn network(
        &self,
        spec: &ServiceSpec,
        run: RunningProcess,
    ) -> Result<Arc<dyn Network>, ServicesError> {
        let RunningProcess { pid, start_time, .. } = run;
        let apart = spec.container().is_some_and(|container| container.network == ContainerNetwork::None);
        if !apart {
            return Ok(self.host());
        }
        let namespace =
            open_network(pid, start_time).map_err(|error| ServicesError::NotNow(error.to_string()))?;
        let network = RunNetwork { service: Arc::from(spec.name.as_str()), pid, namespace };
        Ok(Arc::new(NetworkOfRun { prober: self.0.clone(), place: Place::NetworkOf(Arc::new(network)) }))
    }
}

struct NetworkOfRun {
    prober: Prober,
    place: Place,
}

impl Network for NetworkOfRun {
    fn watch(&self, schedule: Schedule, sink: Arc<dyn Sink>) -> Box<dyn Watched> {
        Box::new(self.prober.watch(self.place.clone(), schedule, sink))
    }
}

struct Shown {
    prober: Prober,
    snapshot: watch::Receiver<Snapshot>,
}

impl ExternalService for Shown {
    fn snapshot(&self) -> watch::Receiver<Snapshot> {
        self.snapshot.clone()
    }

    fn restart(&self) -> Result<(), ServicesError> {
        self.prober.restart();
        Ok(())
    }
}

/// Shows it among the services once there is a first check to ask, and makes events of what it reports.
pub fn show(manager: &Manager, events: &EventLog, prober: Prober, mut reports: mpsc::Receiver<Report>) {
    let mut status = prober.status();
    let first = snapshot(&status.borrow_and_update(), false);
    let (publisher, receiver) = watch::channel(first);
    let (events, told) = (events.clone(), manager.clone());
    tokio::spawn(async move {
        let name: Arc<str> = Arc::from(NAME);
        let mut shown = Some(Shown { prober, snapshot: receiver });
        while status.changed().await.is_ok() {
            let (now, wanted) = {
                let status = status.borrow_and_update();
                (snapshot(&status, told.closing()), status.wanted)
            };
            let before = publisher.borrow().clone();
            if before != now {
                publisher.send_replace(now.clone());
            }
            if wanted && let Some(shown) = shown.take() {
                told.add_external(NAME, Arc::new(shown));
            }
            if shown.is_none() && (before.message != now.message || before.pid != now.pid) {
                events.add(&name, now.state, Arc::clone(&now.message), now.run);
            }
        }
    });
    let reported = manager.clone();
    tokio::spawn(async move {
        while let Some(report) = reports.recv().await {
            reported.service_event(NAME, &sentence(&report));
        }
    });
}

fn sentence(report: &Report) -> String {
    let of = |place: &Place| match place {
        Place::Host => String::new(),
        Place::NetworkOf(network) => format!("in the network of service \"{}\": ", network.service),
    };
    match report {
        Report::Replaced { place, reason, late } => {
            let late = match late {
                0 => "no check was late".to_owned(),
                1 => "1 check was late, its service kept its health meanwhile".to_owned(),
                late => format!("{late} checks were late, their services kept their health meanwhile"),
            };
            format!("{}replaced: {reason}; {late}", of(place))
        }
        Report::Trouble { place, text } => format!("{}{text}", of(place)),
    }
}

fn snapshot(status: &ProberStatus, closing: bool) -> Snapshot {
    // It ends when there is nothing to ask, and with the host.
    let ended = status.helper.pid.is_none() && (closing || !status.wanted);
    let asks = match (status.checks, status.others) {
        (0, _) => None,
        (1, 0) => Some("asks 1 check".to_owned()),
        (checks, 0) => Some(format!("asks {checks} checks")),
        (checks, others) => {
            Some(format!("asks {checks} checks, with {others} more of it in networks of containers"))
        }
    };
    let state = match status.helper.up {
        true => State::Running,
        false if ended && closing => State::Stopped,
        false if ended => State::Finished,
        false => State::Starting,
    };
    Snapshot {
        up: status.helper.up,
        // It runs again as soon as there is something to ask.
        down: ended && closing,
        restarts: status.restarts,
        runs: status.helper.pid.is_some(),
        pid: status.helper.pid,
        since: wall(status.helper.since),
        entered: status.helper.since,
        builtin: true,
        stopped: ended && closing,
        status_text: asks.map(Arc::from),
        run: u64::from(status.restarts).saturating_add(1),
        // Without it checks are late; the host is no less healthy for that.
        required: false,
        ..Snapshot::new(Arc::from(NAME), state, Arc::clone(&status.helper.message))
    }
}

#[cfg(test)]
mod tests {
    use kelson_helper::supervisor::Status;

    use super::*;

    fn status(change: impl FnOnce(&mut ProberStatus)) -> ProberStatus {
        let mut status = ProberStatus {
            helper: Status::new("nothing to ask"),
            wanted: false,
            restarts: 0,
            checks: 0,
            others: 0,
            dropped: 0,
        };
        change(&mut status);
        status
    }

    #[test]
    fn it_is_shown_as_what_it_does() {
        let idle = snapshot(&status(|_| {}), false);
        assert_eq!((idle.state, idle.down, idle.stopped), (State::Finished, false, false));
        let asks = snapshot(
            &status(|status| {
                (status.helper.pid, status.helper.up) = (Some(7), true);
                (status.wanted, status.checks) = (true, 3);
            }),
            false,
        );
        assert_eq!((asks.state, asks.up, asks.pid), (State::Running, true, Some(7)));
        assert_eq!(asks.status_text.as_deref(), Some("asks 3 checks"));
        let between = snapshot(&status(|status| (status.wanted, status.checks) = (true, 1)), false);
        assert_eq!((between.state, between.down), (State::Starting, false));
        let stopped = snapshot(&status(|_| {}), true);
        assert_eq!((stopped.state, stopped.stopped, stopped.down), (State::Stopped, true, true));
        assert!(!asks.required && !idle.required, "the host is healthy without it");
    }

    #[test]
    fn what_became_of_it_is_said_with_what_that_costs() {
        let (reason, place) = ("killed by SIGKILL".to_owned(), Place::Host);
        assert_eq!(
            sentence(&Report::Replaced { place, reason: reason.clone(), late: 2 }),
            "replaced: killed by SIGKILL; 2 checks were late, their services kept their health meanwhile"
        );
        let namespace = std::fs::File::open("/proc/self/ns/net").unwrap().into();
        let place = Place::NetworkOf(Arc::new(RunNetwork { service: Arc::from("db"), pid: 9, namespace }));
        assert_eq!(
            sentence(&Report::Replaced { place, reason, late: 0 }),
            "in the network of service \"db\": replaced: killed by SIGKILL; no check was late"
        );
    }
}
