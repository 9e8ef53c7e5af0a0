//! The services that this one needs and whose going down it minds (`whenDown`), and what it needs in the registry of the
//! fleet.
//!
//! The runs of services are noted when it is spawned: one that has ended since then went down, however soon it was back,
//! and also if PID 1 began another incarnation in between. The registry counts as it is now, and as long as it is not
//! known it minds nothing.

use std::task::Poll;

use kelson_conditions::{BoxFuture, Condition as _, Level, RegisteredCondition, sentence};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{Requirement, ServiceEvent, ServiceSpec, WhenDown};
use tokio::sync::watch;

use crate::model::Snapshot;
use crate::service_runner::gate::event_holds;
use crate::service_runner::host_context::HostContext;

/// All bonds of one run.
pub enum DependencyWatch {
    Tied(Vec<Dependency>),
    /// The runs that an earlier incarnation of PID 1 recorded. They are watched once all services are there
    /// again.
    Noted(Vec<u64>),
}

pub struct Dependency {
    rule: WhenDown,
    need: Need,
}

enum Need {
    Service(ServiceRun),
    Registered(RegisteredCondition),
}

struct ServiceRun {
    name: String,
    /// Its run when the dependant was spawned; 0: there was none.
    run: u64,
    /// `None`: there is no such service.
    snapshot: Option<watch::Receiver<Snapshot>>,
}

impl DependencyWatch {
    /// `noted`: what an earlier incarnation of PID 1 had noted. `None`: it minds nobody.
    pub fn tie(spec: &ServiceSpec, host: &HostContext, noted: &[u64]) -> Option<Box<DependencyWatch>> {
        let mut noted = noted.iter().copied();
        let tie = |requirement: &Requirement| {
            let (rule, need) = match requirement {
                Requirement::Service { when_down: WhenDown::Ignore, .. }
                | Requirement::Registered { when_down: WhenDown::Ignore, .. } => return None,
                Requirement::Service { name, when_down, .. } => {
                    let mut snapshot = host.registry.get(name);
                    let run = snapshot.as_mut().map_or(0, |snapshot| snapshot.borrow_and_update().run);
                    let run = noted.next().unwrap_or(run);
                    (*when_down, Need::Service(ServiceRun { name: name.clone(), run, snapshot }))
                }
                Requirement::Registered { instances, when_down } if const { OWN.has(Feature::Fleet) } => {
                    // It has a place among the runs.
                    noted.next();
                    (*when_down, Need::Registered(host.sources.registered.condition(instances)))
                }
                _ => return None,
            };
            Some(Dependency { rule, need })
        };
        let dependency_watch: Vec<Dependency> = spec.depends.iter().filter_map(tie).collect();
        (!dependency_watch.is_empty()).then(|| Box::new(DependencyWatch::Tied(dependency_watch)))
    }

    /// As it was noted.
    pub fn recall(runs: &[u64]) -> Option<Box<DependencyWatch>> {
        (!runs.is_empty()).then(|| Box::new(DependencyWatch::Noted(runs.to_vec())))
    }

    /// The run of each, in the order of the spec.
    pub fn runs(&self) -> Vec<u64> {
        match self {
            DependencyWatch::Tied(dependency_watch) => {
                dependency_watch.iter().map(|dependency| dependency.need.run()).collect()
            }
            DependencyWatch::Noted(runs) => runs.clone(),
        }
    }

    /// Ends once one of them is down: what is to be done, and what happened. Cancelled by dropping; loses nothing then.
    pub async fn broken(&mut self) -> (WhenDown, String) {
        let DependencyWatch::Tied(dependency_watch) = self else { return std::future::pending().await };
        loop {
            // A stop outweighs a restart.
            let broken = dependency_watch
                .iter()
                .filter_map(|dependency| Some((dependency.rule, dependency.need.broken()?)));
            if let Some(broken) = broken.max_by_key(|(rule, _)| *rule == WhenDown::Stop) {
                return broken;
            }
            changed(dependency_watch).await;
        }
    }
}

/// Ends once one of them has changed.
async fn changed(dependency_watch: &mut [Dependency]) {
    let mut changes: Vec<_> =
        dependency_watch.iter_mut().filter_map(|dependency| dependency.need.changed()).collect();
    std::future::poll_fn(|context| {
        let any = changes.iter_mut().any(|change| change.as_mut().poll(context).is_ready());
        if any { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Need {
    fn run(&self) -> u64 {
        match self {
            Need::Service(service) => service.run,
            Need::Registered(_) => 0,
        }
    }

    /// Describes the event, once it is missing.
    fn broken(&self) -> Option<String> {
        match self {
            Need::Service(service) => service.broken(),
            Need::Registered(condition) => (condition.level() == Level::DoesNotHold)
                .then(|| format!("{}, which it needs, is missing", sentence(&condition.missing()))),
        }
    }

    /// `None`: nothing changes any more.
    fn changed(&mut self) -> Option<BoxFuture<'_, ()>> {
        match self {
            Need::Service(service) => {
                let snapshot = service.snapshot.as_mut()?;
                Some(Box::pin(async { drop(snapshot.changed().await) }))
            }
            Need::Registered(condition) => Some(condition.changed()),
        }
    }
}

impl ServiceRun {
    /// Describes the event, once it is down.
    fn broken(&self) -> Option<String> {
        let name = &self.name;
        let there = self.snapshot.as_ref().filter(|snapshot| snapshot.has_changed().is_ok());
        let Some(snapshot) = there else {
            return (self.run > 0).then(|| format!("service \"{name}\", which it needs, was removed"));
        };
        let now = snapshot.borrow();
        let down = match now.oneshot {
            // One that has ended successfully is up.
            true => now.state.at_rest() && !now.finished,
            // It waits for a connection, or for another run: its sockets listen.
            false if now.spec.as_ref().is_some_and(|spec| spec.on_demand) => now.state.at_rest(),
            // It is still called running while what its process has left is cleared away.
            false => now.run != self.run || !event_holds(&now, ServiceEvent::Running),
        };
        down.then(|| match now.run == self.run {
            true => format!("service \"{name}\", which it needs, went down ({})", now.message),
            false => format!("service \"{name}\", which it needs, went down and was started again"),
        })
    }
}
