//! `probe`: asks the network checks of services, and storage plugins whether they are ready.
//!
//! It is no ordinary service: the [`Prober`] starts `kelson-probe` while there is something to ask, replaces
//! it when it dies or freezes, and ends it after all services have. No service is restarted or loses its
//! health because of its end. Each process asks in the network that a run has: the host's, or that of a
//! container. One more asks at Unix sockets.

use std::sync::Arc;

use kelson_runner::open_network;
use kelson_runner::seccomp::Filter;
use kelson_spec::MachineSpec;
use kelson_spec::service::{ContainerNetwork, Credentials, Probe, Resources, ServiceSpec};
use kelson_sys::capability::DAC_OVERRIDE;
use tokio::sync::mpsc;

use super::helper::{self, HelperService};
use crate::error::ServicesError;
use crate::events::EventLog;
use crate::health::network::{Network, Watched};
use crate::helpers::{HelperCgroup, HelperKind};
use crate::manager::Manager;
use crate::model::Snapshot;
use crate::prober::{Place, Prober, ProberStatus, Report, RunNetwork, Schedule, Sink};
use crate::service_runner::host_context::RunningProcess;

/// The name under which it is shown, and of its cgroup.
pub const NAME: &str = "probe";
/// The memory that it may use where the machine file sets no limit: thousands of checks take a tenth of it.
const MEMORY_MAX: u64 = 128 << 20;
/// One thread a process, a process a network.
const PIDS_MAX: u64 = 4096;

/// How it is started: without any privilege. All processes are in one cgroup of their own: in that of a service they would
/// be killed with it, and counted as its use.
pub fn kind(machine: &MachineSpec) -> HelperKind {
    let usual = Resources { memory_max: Some(MEMORY_MAX), pids_max: Some(PIDS_MAX), ..Resources::default() };
    HelperKind {
        name: kelson_helper::probe::NAME,
        arguments: Vec::new(),
        confine: |processes, command| {
            command
                .user(Credentials::NOBODY, Credentials::NOBODY, Vec::new())
                .bounding(Some(0))
                .no_new_privileges(true)
                .seccomp(Some(processes.default_filter(0)))
        },
        spared: false,
        cgroup: HelperCgroup::of_builtin(machine, NAME, usual),
    }
}

/// How the one for Unix sockets is started. Those of plugins belong to root, so it may connect to any, as a user who is
/// nobody to their servers. It can open no file.
pub fn kind_for_sockets(machine: &MachineSpec) -> HelperKind {
    HelperKind {
        confine: |_, command| {
            command
                .user(Credentials::NOBODY, Credentials::NOBODY, Vec::new())
                .bounding(Some(DAC_OVERRIDE))
                .ambient(DAC_OVERRIDE)
                .no_new_privileges(true)
                .seccomp(Some(Arc::new(Filter::socket_client())))
        },
        ..kind(machine)
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
        let apart = spec.container().is_some_and(|container| container.network != ContainerNetwork::Host)
            || spec.security.own.network;
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
        let place = match schedule.probe {
            Probe::Csi { .. } => Place::Sockets,
            Probe::Exec { .. } | Probe::Network(_) | Probe::Volume(_) => self.place.clone(),
        };
        Box::new(self.prober.watch(place, schedule, sink))
    }
}

/// Shows the probe among the services once there is a first check to ask, and makes events of what it reports.
pub fn show(manager: &Manager, events: &EventLog, prober: Prober, reports: mpsc::Receiver<Report>) {
    let service = HelperService {
        name: NAME,
        status: prober.status(),
        snapshot,
        reports,
        event: |report| (Arc::from(NAME), sentence(&report), None),
        restart: Box::new(move || prober.restart()),
    };
    service.show(manager, events);
}

fn sentence(report: &Report) -> String {
    let of = |place: &Place| match place {
        Place::Host => String::new(),
        Place::Sockets => "for Unix sockets: ".to_owned(),
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
    let asks = match (status.checks, status.others) {
        (0, _) => None,
        (1, 0) => Some("asks 1 check".to_owned()),
        (checks, 0) => Some(format!("asks {checks} checks")),
        (checks, others) => Some(format!(
            "asks {checks} checks, with {others} more of it for Unix sockets and other networks"
        )),
    };
    Snapshot {
        restarts: status.restarts,
        status_text: asks.map(Arc::from),
        run: u64::from(status.restarts).saturating_add(1),
        // Without it checks are late; the host is no less healthy for that.
        required: false,
        ..helper::snapshot(NAME, &status.helper, status.wanted, closing)
    }
}

#[cfg(test)]
mod tests {
    use kelson_helper::supervisor::Status;

    use super::*;
    use crate::model::State;

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
