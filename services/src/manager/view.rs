//! Why a service is as it is, and the condition graph.

use std::collections::BTreeSet;
use std::sync::Arc;

use kelson_conditions::{Missing, Subject};
use kelson_spec::service::Requirement;

use super::{FaultyFile, Manager};
use crate::model::{Snapshot, State};
use crate::service_runner::gate::event_holds;

/// How deep `why` follows a chain.
const DEPTH: usize = 64;

/// One link of the chain of `why`.
#[derive(Debug, Clone, PartialEq)]
pub struct Reason {
    /// What the link above it lacks; `None` at the head of the chain.
    pub missing: Option<Missing>,
    /// The service that is meant, where there is one.
    pub service: Option<Snapshot>,
    /// Of that service.
    pub faulty_file: Option<FaultyFile>,
    pub causes: Vec<Reason>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct GraphView {
    pub nodes: Vec<GraphNode>,
    pub edges: Vec<GraphEdge>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GraphNode {
    pub id: String,
    pub is_service: bool,
    pub state: Option<State>,
    pub up: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GraphEdge {
    pub from: String,
    pub to: String,
    pub event: String,
    pub holds: bool,
    pub alternative: bool,
}

impl Manager {
    /// The chain of what a service waits for, down to the cause. `None`: no such service.
    pub fn why(&self, name: &str) -> Option<Reason> {
        let service = self.get(name)?;
        Some(self.reason(None, Some(service), &mut BTreeSet::new(), DEPTH))
    }

    fn reason(
        &self,
        missing: Option<Missing>,
        service: Option<Snapshot>,
        seen: &mut BTreeSet<Arc<str>>,
        depth: usize,
    ) -> Reason {
        let below: &[Missing] = match &service {
            // Each is followed once: there may be cycles.
            Some(service) if depth > 0 && seen.insert(Arc::clone(&service.name)) => &service.missing,
            _ => &[],
        };
        let causes = below.iter().map(|one| self.cause(one, seen, depth.saturating_sub(1))).collect();
        let faulty_file = service.as_ref().and_then(|service| self.faulty_file(&service.name));
        Reason { missing, service, faulty_file, causes }
    }

    fn cause(&self, missing: &Missing, seen: &mut BTreeSet<Arc<str>>, depth: usize) -> Reason {
        let lacks = Some(missing.clone());
        match &missing.subject {
            Subject::Service { name, .. } => self.reason(lacks, self.get(name), seen, depth),
            Subject::Any(alternatives) => {
                let causes = alternatives.iter().flatten().map(|one| self.cause(one, seen, depth)).collect();
                Reason { missing: lacks, service: None, faulty_file: None, causes }
            }
            _ => Reason { missing: lacks, service: None, faulty_file: None, causes: Vec::new() },
        }
    }

    /// All services and conditions, and who waits for what.
    pub fn graph(&self) -> GraphView {
        let mut view = GraphView::default();
        let mut conditions = BTreeSet::new();
        for snapshot in self.list() {
            let name = snapshot.name.to_string();
            view.nodes.push(GraphNode {
                id: name.clone(),
                is_service: true,
                state: Some(snapshot.state),
                up: snapshot.up,
            });
            let Some(spec) = self.spec(&name) else { continue };
            for requirement in &spec.depends {
                self.edges(requirement, &snapshot, false, &mut view, &mut conditions);
            }
        }
        for (id, held) in conditions
            .iter()
            .map(|id: &String| (id, view.edges.iter().filter(|edge| edge.to == *id).all(|edge| edge.holds)))
        {
            view.nodes.push(GraphNode { id: id.clone(), is_service: false, state: None, up: held });
        }
        view
    }

    fn edges(
        &self,
        requirement: &Requirement,
        waiter: &Snapshot,
        alternative: bool,
        view: &mut GraphView,
        conditions: &mut BTreeSet<String>,
    ) {
        let from = waiter.name.to_string();
        match requirement {
            Requirement::Service { name, event, .. } => view.edges.push(GraphEdge {
                from,
                to: name.clone(),
                event: event.name().into(),
                holds: self.get(name).is_some_and(|snapshot| event_holds(&snapshot, *event)),
                alternative,
            }),
            Requirement::Any(each) => {
                for one in each {
                    self.edges(one, waiter, true, view, conditions);
                }
            }
            other => {
                for condition in Subject::of(other) {
                    let text = condition.to_string();
                    conditions.insert(text.clone());
                    view.edges.push(GraphEdge {
                        from: from.clone(),
                        // As far as the service that waits for it knows.
                        holds: waiter.state != State::Initialized
                            && !waiter.missing.iter().any(|missing| missing.concerns(&condition)),
                        to: text,
                        event: String::new(),
                        alternative,
                    });
                }
            }
        }
    }
}
