//! The Manager: all the services of the host. (Faces; bodies follow.)

use std::sync::Arc;
use std::time::Duration;

use kelson_spec::ServiceSpec;
use tokio::sync::watch;

use crate::model::{Event, Snapshot, State};

/// What became of an operator's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    NothingToDo,
    Superseded,
    Refused,
    Failed,
}

#[derive(Debug, Clone)]
pub struct ActionResult {
    pub name: String,
    pub outcome: Outcome,
    pub message: String,
    /// Absent where there is no such service.
    pub snapshot: Option<Snapshot>,
}

/// What an operator waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    Up,
    Down,
    Finished,
}

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

/// Use of the cgroup of a service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    pub memory_bytes: Option<u64>,
    pub cpu: Option<Duration>,
    pub processes: Option<u32>,
}

/// Events from a number on.
#[derive(Debug, Clone, Default)]
pub struct EventBatch {
    /// How many before the first are no longer kept.
    pub missed: u64,
    pub events: Vec<Event>,
    /// What to ask for next time.
    pub next: u64,
}

/// All the services of the host. Cheap to clone.
#[derive(Clone)]
pub struct Manager {}

impl Manager {
    /// All services sorted by name, built-in ones too.
    pub fn list(&self) -> Vec<Snapshot> {
        Vec::new()
    }
    pub fn get(&self, _name: &str) -> Option<Snapshot> {
        None
    }
    pub fn spec(&self, _name: &str) -> Option<Arc<ServiceSpec>> {
        None
    }
    /// Names of the services that name it in `depends`.
    pub fn needed_by(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }
    pub fn usage(&self, _name: &str) -> Usage {
        Usage::default()
    }
    /// With `wait`, answers once each is up or has failed.
    pub async fn start(&self, _names: &[String], _wait: bool) -> Vec<ActionResult> {
        Vec::new()
    }
    pub async fn stop(&self, _names: &[String], _cascade: bool, _wait: bool) -> Vec<ActionResult> {
        Vec::new()
    }
    pub async fn restart(&self, _names: &[String], _wait: bool) -> Vec<ActionResult> {
        Vec::new()
    }
    /// Returns once all hold, at the same time. Cancelled by dropping. `Err` names an unknown service.
    pub async fn wait(&self, _names: &[String], _awaited: Awaited) -> Result<(), String> {
        Ok(())
    }
    pub fn why(&self, _name: &str) -> Option<Reason> {
        None
    }
    pub fn graph(&self) -> GraphView {
        GraphView::default()
    }
    /// Events numbered `since` and up that are still kept, at most `limit`; `since` 0: from the oldest.
    pub fn events(&self, _since: u64, _limit: usize) -> EventBatch {
        EventBatch::default()
    }
    /// The last events of one service, oldest first, at most 64.
    pub fn events_of(&self, _name: &str) -> Vec<Event> {
        Vec::new()
    }
    /// The number of the newest event; changes with each. The sender is dropped when PID 1 ends: streams end then,
    /// after the last event.
    pub fn newest_event(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }
}
