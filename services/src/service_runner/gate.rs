//! The gate of a service: all that it waits for before each spawn, asked as a level.

use std::time::Duration;

use kelson_conditions::{All, Any, BoxFuture, Clock, Condition, Network, Paths};
use kelson_spec::service::{Requirement, ServiceEvent};
use tokio::sync::watch;

pub use super::registry::Registry;
use crate::model::{Snapshot, State};

/// How long `when:` waits for the file system of a path to answer.
const WHEN_DEADLINE: Duration = Duration::from_secs(5);
/// How long it waits for anything else to be known.
const LEVEL_DEADLINE: Duration = Duration::from_millis(200);

/// Where conditions other than services come from.
#[derive(Clone)]
pub struct Sources {
    pub paths: Paths,
    pub network: Network,
    pub clock: Clock,
}

/// Whether an event of a service holds now.
pub fn event_holds(snapshot: &Snapshot, event: ServiceEvent) -> bool {
    match event {
        ServiceEvent::Up => snapshot.up,
        ServiceEvent::Running => {
            snapshot.pid.is_some() && matches!(snapshot.state, State::Starting | State::Running)
        }
        ServiceEvent::Finished => snapshot.finished,
        ServiceEvent::Down => snapshot.down,
    }
}

/// The word of the service file.
pub fn event_name(event: ServiceEvent) -> &'static str {
    match event {
        ServiceEvent::Up => "up",
        ServiceEvent::Running => "running",
        ServiceEvent::Finished => "finished",
        ServiceEvent::Down => "down",
    }
}

/// `service "db" to be up`.
pub fn event_text(name: &str, event: ServiceEvent) -> String {
    match event {
        ServiceEvent::Finished => format!("service \"{name}\" to have finished"),
        _ => format!("service \"{name}\" to be {}", event_name(event)),
    }
}

struct ServiceCondition {
    name: String,
    event: ServiceEvent,
    /// `None`: there is no such service (any more).
    snapshot: Option<watch::Receiver<Snapshot>>,
}

impl Condition for ServiceCondition {
    fn holds(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| event_holds(&snapshot.borrow(), self.event))
    }

    fn describe(&self) -> Option<String> {
        let text = event_text(&self.name, self.event);
        let Some(snapshot) = &self.snapshot else {
            return Some(format!("{text} (there is no such service)"));
        };
        let snapshot = snapshot.borrow();
        if event_holds(&snapshot, self.event) {
            return None;
        }
        // A service that nothing will start is worth a word: the wait may be long.
        Some(match snapshot.state {
            State::Failed => format!("{text} (it failed: {})", snapshot.message),
            State::Skipped => format!("{text} (it was skipped)"),
            State::Finished if snapshot.stopped => format!("{text} (it was stopped)"),
            State::Initialized if snapshot.down => format!("{text} (nothing starts it; its start is manual)"),
            _ => text,
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(snapshot) = &mut self.snapshot {
                if snapshot.changed().await.is_ok() {
                    return;
                }
                self.snapshot = None;
                return;
            }
            std::future::pending().await
        })
    }
}

/// The condition that a requirement stands for.
pub fn condition(requirement: &Requirement, registry: &Registry, sources: &Sources) -> Box<dyn Condition> {
    match requirement {
        Requirement::Service { name, event, .. } => {
            Box::new(ServiceCondition { name: name.clone(), event: *event, snapshot: registry.get(name) })
        }
        Requirement::Path(path) => Box::new(sources.paths.condition(path.clone())),
        Requirement::Network(aspects) => {
            let each = aspects.iter().map(|aspect| -> Box<dyn Condition> {
                use kelson_conditions::Aspect;
                use kelson_spec::service::NetworkAspect;
                Box::new(sources.network.condition(match aspect {
                    NetworkAspect::Addresses => Aspect::Addresses,
                    NetworkAspect::Connectivity => Aspect::Connectivity,
                    NetworkAspect::Hostname => Aspect::Hostname,
                }))
            });
            Box::new(All::new(each.collect()))
        }
        Requirement::TimeSynced => Box::new(sources.clock.condition()),
        Requirement::Any(alternatives) => {
            Box::new(Any::new(alternatives.iter().map(|one| condition(one, registry, sources)).collect()))
        }
    }
}

/// The whole gate.
pub fn gate(requirements: &[Requirement], registry: &Registry, sources: &Sources) -> All {
    All::new(requirements.iter().map(|one| condition(one, registry, sources)).collect())
}

/// Asks `when:` once. `Err` says what does not hold.
pub async fn ask_when(
    requirements: Vec<Requirement>,
    registry: Registry,
    sources: Sources,
) -> Result<(), String> {
    for requirement in &requirements {
        ask(requirement, &registry, &sources).await?;
    }
    Ok(())
}

/// Asks one requirement once; of alternatives, one after the other until one holds.
fn ask<'a>(
    requirement: &'a Requirement,
    registry: &'a Registry,
    sources: &'a Sources,
) -> BoxFuture<'a, Result<(), String>> {
    Box::pin(async move {
        match requirement {
            Requirement::Path(path) => match sources.paths.exists_now(path.clone(), WHEN_DEADLINE).await {
                Some(true) => Ok(()),
                Some(false) => Err(format!("path \"{}\" does not exist", path.display())),
                None => Err(format!("the file system of \"{}\" does not answer", path.display())),
            },
            Requirement::Any(alternatives) => {
                let mut missing = Vec::new();
                for one in alternatives {
                    match ask(one, registry, sources).await {
                        Ok(()) => return Ok(()),
                        Err(text) => missing.push(text),
                    }
                }
                Err(missing.join(", and "))
            }
            other => {
                let mut condition = condition(other, registry, sources);
                // A level that has to be asked for first (netlink) gets a moment to be known.
                let known = async {
                    while !condition.holds() {
                        condition.changed().await;
                    }
                };
                if tokio::time::timeout(LEVEL_DEADLINE, known).await.is_ok() {
                    return Ok(());
                }
                let missing = condition.describe().unwrap_or_default();
                Err(format!("`when` asks for {missing}"))
            }
        }
    })
}
