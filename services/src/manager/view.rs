//! Why a service is as it is, and the condition graph.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kelson_conditions::{Missing, Subject};
use kelson_proto::v1;
use kelson_spec::service::{Requirement, ServiceEvent};

use super::Manager;
use crate::messages;
use crate::model::{Numbered as _, Snapshot, State};
use crate::service_runner::gate::event_holds;

/// How deep `why` follows a chain.
const DEPTH: usize = 64;

impl Manager {
    /// The chain of what a service waits for, down to the cause. `None`: no such service.
    pub fn why(&self, name: &str) -> Option<v1::Reason> {
        let service = self.get(name)?;
        Some(self.reason(None, Some(service), &mut BTreeSet::new(), DEPTH))
    }

    /// `missing`: what the link above it lacks; `service`: the one that is meant, where there is one.
    fn reason(
        &self,
        missing: Option<&Missing>,
        service: Option<Snapshot>,
        seen: &mut BTreeSet<Arc<str>>,
        depth: usize,
    ) -> v1::Reason {
        let below: &[Missing] = match &service {
            // Each is followed once: there may be cycles.
            Some(service) if depth > 0 && seen.insert(Arc::clone(&service.name)) => &service.missing,
            _ => &[],
        };
        let causes = below.iter().map(|one| self.cause(one, seen, depth.saturating_sub(1))).collect();
        let (subject, text) = match (missing, &service) {
            (None, Some(service)) => (format!("service \"{}\"", service.name), self.message_of(service)),
            (Some(missing), Some(service)) => (missing.subject.to_string(), self.message_of(service)),
            (Some(Missing { subject, reason }), None) => {
                (subject.to_string(), reason.as_ref().map_or_else(|| "not yet".into(), ToString::to_string))
            }
            (None, None) => (String::new(), String::new()),
        };
        let now = service.as_ref();
        v1::Reason {
            subject,
            text,
            state: now.map_or(0, |now| now.state.number()),
            holds: missing.is_none() && now.is_some_and(|now| now.up && now.missing.is_empty()),
            causes,
            missing: missing.map(messages::missing),
            faulty_file: now.and_then(|now| self.faulty_file(&now.name)),
            retry: now.and_then(messages::retry),
        }
    }

    /// Why it is as it is. While it is prepared and while it stops, the last event says how far that has come.
    fn message_of(&self, service: &Snapshot) -> String {
        let is_under_way = matches!(service.state, State::Preparing | State::Stopping);
        let events = if is_under_way { self.log().of_service(&service.name) } else { Vec::new() };
        let last = events.last().filter(|last| last.state == service.state && last.run == service.run);
        last.map_or(&service.message, |last| &last.message).to_string()
    }

    fn cause(&self, missing: &Missing, seen: &mut BTreeSet<Arc<str>>, depth: usize) -> v1::Reason {
        match &missing.subject {
            Subject::Service { name, .. } => self.reason(Some(missing), self.get(name), seen, depth),
            Subject::Any(alternatives) => v1::Reason {
                subject: "any of these".to_owned(),
                text: "none holds".to_owned(),
                causes: alternatives.iter().flatten().map(|one| self.cause(one, seen, depth)).collect(),
                missing: Some(messages::missing(missing)),
                ..v1::Reason::default()
            },
            _ => self.reason(Some(missing), None, seen, depth),
        }
    }

    /// All services and conditions, and who waits for what.
    pub fn graph(&self) -> v1::GraphResponse {
        let mut view = v1::GraphResponse::default();
        // Whether each holds for all that wait for it.
        let mut conditions = BTreeMap::new();
        for snapshot in self.list() {
            view.nodes.push(v1::GraphNode {
                id: snapshot.name.to_string(),
                is_service: true,
                state: snapshot.state.number(),
                up: snapshot.up,
            });
            let Some(spec) = self.spec(&snapshot.name) else { continue };
            for requirement in &spec.depends {
                self.edges(requirement, &snapshot, false, &mut view, &mut conditions);
            }
        }
        for (id, up) in conditions {
            view.nodes.push(v1::GraphNode { id, is_service: false, state: 0, up });
        }
        view
    }

    fn edges(
        &self,
        requirement: &Requirement,
        waiter: &Snapshot,
        alternative: bool,
        view: &mut v1::GraphResponse,
        conditions: &mut BTreeMap<String, bool>,
    ) {
        let from = waiter.name.to_string();
        match requirement {
            Requirement::Service { name, event, .. } => view.edges.push(v1::GraphEdge {
                from,
                to: name.clone(),
                event: event.name().into(),
                holds: match self.registry().get(name) {
                    Some(now) => event_holds(&now.borrow(), *event),
                    None => *event == ServiceEvent::Settled,
                },
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
                    // As far as the service that waits for it knows.
                    let holds = waiter.state != State::Initialized
                        && !waiter.missing.iter().any(|missing| missing.concerns(&condition));
                    *conditions.entry(text.clone()).or_insert(true) &= holds;
                    view.edges.push(v1::GraphEdge {
                        from: from.clone(),
                        to: text,
                        holds,
                        event: String::new(),
                        alternative,
                    });
                }
            }
        }
    }
}
