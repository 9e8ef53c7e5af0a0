//! Why a service is as it is, and the condition graph.

use std::collections::BTreeSet;

use kelson_spec::service::{NetworkAspect, Requirement};

use super::Manager;
use crate::model::{Snapshot, State};
use crate::service_runner::gate::{event_holds, event_name, event_text};

/// How deep `why` follows a chain.
const DEPTH: usize = 64;

/// One link of the chain of `why`.
#[derive(Debug, Clone, PartialEq)]
pub struct Reason {
    pub subject: String,
    pub text: String,
    pub state: Option<State>,
    pub holds: bool,
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

/// The text of a condition that is no service, as it stands in `waitingFor`.
fn texts(requirement: &Requirement) -> Vec<String> {
    match requirement {
        Requirement::Path(path) => vec![format!("path \"{}\" to exist", path.display())],
        Requirement::Network(aspects) => aspects
            .iter()
            .map(|aspect| {
                match aspect {
                    NetworkAspect::Addresses => "network addresses",
                    NetworkAspect::Connectivity => "network connectivity",
                    NetworkAspect::Hostname => "a hostname",
                }
                .to_owned()
            })
            .collect(),
        Requirement::TimeSynced => vec!["the clock to be synchronised".into()],
        Requirement::Service { .. } | Requirement::Any(_) => Vec::new(),
    }
}

/// Whether a condition that is no service holds, as far as the service that waits for it knows.
fn holds(text: &str, snapshot: &Snapshot) -> bool {
    !snapshot.waiting_for.iter().any(|missing| missing.contains(text))
}

impl Manager {
    /// The chain of what a service waits for, down to the cause. `None`: no such service.
    pub fn why(&self, name: &str) -> Option<Reason> {
        let mut seen = BTreeSet::new();
        self.reason(name, &mut seen, DEPTH)
    }

    fn reason(&self, name: &str, seen: &mut BTreeSet<String>, depth: usize) -> Option<Reason> {
        let snapshot = self.get(name)?;
        let spec = self.spec(name);
        let mut causes = Vec::new();
        let first_time = seen.insert(name.to_owned());
        if snapshot.state == State::Waiting && first_time && depth > 0 {
            for requirement in spec.iter().flat_map(|spec| &spec.depends) {
                self.cause(requirement, &snapshot, seen, depth.saturating_sub(1), &mut causes);
            }
        }
        Some(Reason {
            subject: format!("service \"{name}\""),
            text: format!("{}: {}", snapshot.state.name(), snapshot.message),
            state: Some(snapshot.state),
            holds: snapshot.up,
            causes,
        })
    }

    fn cause(
        &self,
        requirement: &Requirement,
        waiter: &Snapshot,
        seen: &mut BTreeSet<String>,
        depth: usize,
        causes: &mut Vec<Reason>,
    ) {
        match requirement {
            Requirement::Service { name, event, .. } => {
                let held = self.get(name).is_some_and(|snapshot| event_holds(&snapshot, *event));
                if held {
                    return;
                }
                let mut reason = self.reason(name, seen, depth).unwrap_or_else(|| Reason {
                    subject: String::new(),
                    text: "there is no such service".into(),
                    state: None,
                    holds: false,
                    causes: Vec::new(),
                });
                reason.subject = event_text(name, *event);
                reason.holds = false;
                causes.push(reason);
            }
            Requirement::Any(each) => {
                let mut inner = Vec::new();
                for one in each {
                    self.cause(one, waiter, seen, depth, &mut inner);
                }
                if inner.len() >= each.len() {
                    causes.push(Reason {
                        subject: "any of these".into(),
                        text: "none holds".into(),
                        state: None,
                        holds: false,
                        causes: inner,
                    });
                }
            }
            other => {
                for text in texts(other) {
                    if !holds(&text, waiter) {
                        causes.push(Reason {
                            subject: text,
                            text: "not yet".into(),
                            state: None,
                            holds: false,
                            causes: Vec::new(),
                        });
                    }
                }
            }
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
                event: event_name(*event).into(),
                holds: self.get(name).is_some_and(|snapshot| event_holds(&snapshot, *event)),
                alternative,
            }),
            Requirement::Any(each) => {
                for one in each {
                    self.edges(one, waiter, true, view, conditions);
                }
            }
            other => {
                for text in texts(other) {
                    conditions.insert(text.clone());
                    view.edges.push(GraphEdge {
                        from: from.clone(),
                        holds: waiter.state != State::Initialized && holds(&text, waiter),
                        to: text,
                        event: String::new(),
                        alternative,
                    });
                }
            }
        }
    }
}
