//! The gate of a service: all that it waits for before each spawn, asked as a level.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_conditions::{All, BoxFuture, Condition, Level, Missing, Reason, Sources, Subject, sentence};
use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{Requirement, ServiceEvent};
use tokio::sync::watch;
use tokio::time::Instant;

pub use super::registry::Registry;
use crate::model::{Snapshot, State};

/// How long a decision waits for conditions that nobody has answered yet: a path on a slow disk, netlink.
const KNOWN_DEADLINE: Duration = Duration::from_secs(5);

/// Whether an event of a service holds now.
pub fn event_holds(snapshot: &Snapshot, event: ServiceEvent) -> bool {
    match event {
        ServiceEvent::Up => snapshot.up,
        ServiceEvent::Running => snapshot.runs && matches!(snapshot.state, State::Starting | State::Running),
        ServiceEvent::Finished => snapshot.finished,
        ServiceEvent::Down => snapshot.down,
        ServiceEvent::Settled => {
            let unhealthy = snapshot.state == State::Running && snapshot.healthy == Some(false);
            snapshot.up || snapshot.down || unhealthy || snapshot.state == State::Backoff
        }
    }
}

struct ServiceCondition {
    name: Arc<str>,
    event: ServiceEvent,
    /// `None`: there is no such service now.
    snapshot: Option<watch::Receiver<Snapshot>>,
    registry: Registry,
}

impl Condition for ServiceCondition {
    fn level(&self) -> Level {
        match &self.snapshot {
            Some(snapshot) => event_holds(&snapshot.borrow(), self.event),
            None => self.event == ServiceEvent::Settled,
        }
        .into()
    }

    fn missing(&self) -> Vec<Missing> {
        let reason = match &self.snapshot {
            None if self.event == ServiceEvent::Settled => return Vec::new(),
            None => Some(Reason::UnknownService),
            Some(snapshot) => {
                let snapshot = snapshot.borrow();
                if event_holds(&snapshot, self.event) {
                    return Vec::new();
                }
                // A service that nothing will start is worth a word: the wait may be long.
                match snapshot.state {
                    State::Failed => Some(Reason::Failed(Arc::clone(&snapshot.message))),
                    State::Skipped => Some(Reason::Skipped),
                    State::Stopped if snapshot.down => Some(Reason::Stopped),
                    State::Initialized if snapshot.down => Some(Reason::Manual),
                    _ => None,
                }
            }
        };
        let subject = Subject::Service { name: Arc::clone(&self.name), event: self.event };
        vec![Missing { subject, reason }]
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match &mut self.snapshot {
                Some(snapshot) => {
                    if snapshot.changed().await.is_err() {
                        self.snapshot = None;
                    }
                }
                // A built-in service comes when there is something to do for it, and a removed one may come back.
                None => self.snapshot = Some(self.registry.find(&self.name).await),
            }
        })
    }
}

/// The condition that a requirement stands for.
pub fn condition(requirement: &Requirement, registry: &Registry, sources: &Sources) -> Box<dyn Condition> {
    sources.condition(requirement, &|name, event| {
        let (snapshot, registry) = (registry.get(name), registry.clone());
        Box::new(ServiceCondition { name: Arc::from(name), event, snapshot, registry })
    })
}

/// All of these requirements.
pub fn gate(requirements: &[Requirement], registry: &Registry, sources: &Sources) -> All {
    All::new(requirements.iter().map(|one| condition(one, registry, sources)).collect())
}

/// The whole gate of a service.
pub fn gate_of(spec: &ServiceSpec, registry: &Registry, sources: &Sources) -> All {
    let requirements = spec.depends.iter().map(|one| condition(one, registry, sources));
    let mut all: Vec<Box<dyn Condition>> = requirements.collect();
    if const { OWN.has(Feature::Secrets) } {
        all.extend(spec.secrets.iter().map(|one| sources.secret(&one.name)));
    }
    if const { OWN.has(Feature::Fleet) } {
        all.extend(spec.templates.iter().map(|one| sources.template(&one.source)));
    }
    All::new(all)
}

/// Waits until all of `gate` is known, or until a decision cannot wait any longer. Cancelled by dropping.
pub async fn settle(gate: &mut All) {
    let deadline = Instant::now().checked_add(KNOWN_DEADLINE);
    gate.known(deadline.unwrap_or_else(Instant::now)).await;
}

/// The first requirement of `when:` that does not hold.
#[derive(Debug, thiserror::Error)]
pub enum Unmet {
    #[error("path \"{}\" does not exist", .0.display())]
    Absent(PathBuf),
    #[error("the file system of \"{}\" does not answer", .0.display())]
    Unanswered(PathBuf),
    #[error("`when` asks for {}", sentence(.0))]
    Missing(Vec<Missing>),
    #[error("path \"{}\" exists", .0.display())]
    Present(PathBuf),
    /// No alternative of an `any` holds.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", and "))]
    All(Vec<Unmet>),
}

/// Evaluates `when:` once.
///
/// # Errors
/// The first requirement that does not hold.
pub async fn ask_when(
    requirements: Vec<Requirement>,
    registry: Registry,
    sources: Sources,
) -> Result<(), Unmet> {
    for requirement in &requirements {
        ask(requirement, &registry, &sources).await?;
    }
    Ok(())
}

/// Evaluates one requirement once; of alternatives, one after the other until one holds.
fn ask<'a>(
    requirement: &'a Requirement,
    registry: &'a Registry,
    sources: &'a Sources,
) -> BoxFuture<'a, Result<(), Unmet>> {
    Box::pin(async move {
        match requirement {
            Requirement::Path(path) => match sources.paths.exists_now(path.clone(), KNOWN_DEADLINE).await {
                Some(true) => Ok(()),
                Some(false) => Err(Unmet::Absent(path.clone())),
                None => Err(Unmet::Unanswered(path.clone())),
            },
            Requirement::Not(one) if let Requirement::Path(path) = &**one => {
                match sources.paths.exists_now(path.clone(), KNOWN_DEADLINE).await {
                    Some(true) => Err(Unmet::Present(path.clone())),
                    Some(false) => Ok(()),
                    None => Err(Unmet::Unanswered(path.clone())),
                }
            }
            Requirement::Any(alternatives) => {
                let mut missing = Vec::new();
                for one in alternatives {
                    match ask(one, registry, sources).await {
                        Ok(()) => return Ok(()),
                        Err(unmet) => missing.push(unmet),
                    }
                }
                Err(Unmet::All(missing))
            }
            other => {
                let mut condition = gate(std::slice::from_ref(other), registry, sources);
                settle(&mut condition).await;
                if condition.holds() {
                    return Ok(());
                }
                Err(Unmet::Missing(condition.missing()))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::manager::failed_snapshot;

    #[tokio::test(start_paused = true)]
    async fn a_service_that_comes_late_or_again_is_noticed() {
        let (registry, name) = (Registry::default(), Arc::from("late"));
        let event = ServiceEvent::Down;
        let mut condition =
            ServiceCondition { name: Arc::clone(&name), event, snapshot: None, registry: registry.clone() };
        let day = Duration::from_secs(86_400);
        assert!(timeout(day, condition.changed()).await.is_err() && !condition.holds());
        for _ in 0..2 {
            let (publisher, snapshot) = watch::channel(failed_snapshot(&name, "", true));
            registry.add(Arc::clone(&name), snapshot);
            registry.add(Arc::from("other"), publisher.subscribe());
            timeout(day, condition.changed()).await.unwrap();
            assert!(condition.holds());
            assert!(timeout(day, condition.changed()).await.is_err());
            drop(publisher);
            timeout(day, condition.changed()).await.unwrap();
            assert!(!condition.holds());
            // It is removed only now, and another one of its name is added.
            assert!(timeout(day, condition.changed()).await.is_err());
            registry.remove("late");
        }
    }
}
