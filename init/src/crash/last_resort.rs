//! The end of the run of a PID 1 that crashes again and again: services stopped in the reverse order of their dependencies,
//! the rest unmounted, reboot.
//!
//! What crashed may be anything of PID 1's usual work, so as little of it as possible is used: no Manager, no state machine, no
//! API, no logs. One loop looks at the processes that are written down. A fault in here leads to reboot(2) at once, and so does
//! whatever lasts too long ([`Arrival::last`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{Cgroup, CgroupRoot, Child, Processes, signal_pidfd};
use kelson_services::host::ShutdownAction;
use kelson_services::manager::needed_services;
use kelson_services::state_store::{Descriptor, Kind, Past};
use kelson_spec::{Loaded, MachineSpec, ServiceSpec};
use tokio::time::Instant;

use super::Arrival;
use crate::failure::{self, PATIENCE};
use crate::options::Options;
use crate::supervisor::Intents;

/// Between two looks at the processes.
const LOOK: Duration = Duration::from_millis(20);
/// From SIGKILL to giving up on a process.
const AFTER_KILL: Duration = Duration::from_secs(3);

/// Ends the run. `reason` is for the log; `past` is what is known of the services.
pub fn run(options: &Options, arrival: &Arrival, past: Option<Past>, reason: &str) -> ! {
    tracing::error!("{reason}");
    let mut past = past;
    let machine: MachineSpec = past
        .as_mut()
        .and_then(|past| past.paper::<Loaded>(Kind::Configuration, ""))
        .map(|loaded| loaded.machine)
        .unwrap_or_default();
    let patience = machine.shutdown_timeout;
    arrival.ends(ShutdownAction::Reboot);
    arrival.last(patience.saturating_add(PATIENCE));
    let intents = Intents::default();
    intents.ask(ShutdownAction::Reboot, reason);
    failure::end(options, &intents, None, async move |processes| {
        if let Some(past) = &mut past {
            stop(past, processes, patience).await;
        }
    })
}

/// A service whose process runs.
struct Running {
    spec: ServiceSpec,
    child: Child,
    /// When its patience ends, once it has had its signal.
    until: Option<Instant>,
    killed: bool,
}

/// Stops what runs. Returns after `patience` and a moment at the latest.
async fn stop(past: &mut Past, processes: &Processes, patience: Duration) {
    let deadline = Instant::now().checked_add(patience).unwrap_or_else(Instant::now);
    let cgroups = past.take_inherited(|what| match what {
        Descriptor::Cgroups { path } => Ok(path),
        other => Err(other),
    });
    let cgroups = cgroups.into_iter().map(|(path, folder)| CgroupRoot::again(path, folder)).next();
    let (mut specs, _) = past.specs();
    let mut running = Vec::new();
    for record in &past.records {
        let child = record.life.pid.and_then(|pid| processes.adopt(pid, record.start_time).ok().flatten());
        if let Some((child, spec)) = child.zip(specs.remove(&record.name)) {
            running.push(Running { spec, child, until: None, killed: false });
        }
    }
    while !running.is_empty() {
        let now = Instant::now();
        running.retain(|service| goes_on(service, now));
        let needed: BTreeSet<Arc<str>> =
            running.iter().flat_map(|service| needed_services(&service.spec)).map(Arc::from).collect();
        for service in &mut running {
            let late = service.until.unwrap_or(deadline).min(deadline) <= now;
            if late && !service.killed {
                kill(service, cgroups.as_ref());
                service.until = now.checked_add(AFTER_KILL);
            } else if service.until.is_none() && !needed.contains(service.spec.name.as_str()) {
                tracing::info!("stopping {}", service.spec.name);
                signal_pidfd(&service.child.pidfd, service.spec.stop.signal);
                // Who is stopped cannot end.
                signal_pidfd(&service.child.pidfd, libc::SIGCONT);
                service.until = now.checked_add(service.spec.stop.timeout);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether somebody still waits for its end.
fn goes_on(service: &Running, now: Instant) -> bool {
    if service.child.exit.exited().is_some() {
        return false;
    }
    let given_up = service.killed && service.until.is_some_and(|until| until <= now);
    if given_up {
        tracing::error!("gave up on {}: not even SIGKILL ended it", service.spec.name);
    }
    !given_up
}

fn kill(service: &mut Running, cgroups: Option<&CgroupRoot>) {
    tracing::warn!("killing {}: it did not end within its time", service.spec.name);
    service.killed = true;
    signal_pidfd(&service.child.pidfd, libc::SIGKILL);
    let cgroup = cgroups.and_then(|root| Cgroup::open(root, &service.spec.name).ok().flatten());
    if let Some(Err(error)) = cgroup.map(|cgroup| cgroup.kill()) {
        tracing::warn!("{error}");
    }
}
