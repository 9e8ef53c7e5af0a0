//! `why` and `graph`, as programs read them.

use kelson_proto::v1;
use serde::Serialize;

use super::super::style::state_name;
use super::faulty::FaultyFile;
use super::{Retry, some};

/// One link of `why`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    pub subject: String,
    pub text: String,
    /// Empty where it is no service.
    pub state: &'static str,
    pub holds: bool,
    /// Null at the head of the chain.
    pub missing: Option<Missing>,
    /// Of a service; null: the last reading of the files found no mistake in its file.
    pub faulty_file: Option<FaultyFile>,
    /// Of a service that is tried again.
    pub retry: Option<Retry>,
    pub causes: Vec<Reason>,
}

/// A condition that does not hold.
#[derive(Debug, Clone, Serialize)]
pub struct Missing {
    /// service, path, network, time or any.
    pub kind: String,
    pub name: Option<String>,
    pub event: Option<String>,
    /// Null: it may come by itself.
    pub problem: Option<String>,
}

impl From<&v1::Missing> for Missing {
    fn from(missing: &v1::Missing) -> Missing {
        let word = |name: &str, prefix| {
            some(&name.trim_start_matches(prefix).to_ascii_lowercase().replace('_', "-"))
                .filter(|word| word != "unspecified")
        };
        Missing {
            kind: word(missing.kind().as_str_name(), "KIND_").unwrap_or_default(),
            name: some(&missing.name),
            event: some(&missing.event),
            problem: word(missing.problem().as_str_name(), "PROBLEM_"),
        }
    }
}

impl From<&v1::Reason> for Reason {
    fn from(reason: &v1::Reason) -> Reason {
        Reason {
            subject: reason.subject.clone(),
            text: reason.text.clone(),
            state: state_name(reason.state()),
            holds: reason.holds,
            missing: reason.missing.as_ref().map(Missing::from),
            faulty_file: reason.faulty_file.as_ref().map(FaultyFile::from),
            retry: reason.retry.as_ref().map(Retry::from),
            causes: reason.causes.iter().map(Reason::from).collect(),
        }
    }
}

/// The whole of `graph`.
#[derive(Debug, Clone, Serialize)]
pub struct Graph {
    pub nodes: Vec<GraphNode>,
    pub edges: Vec<GraphEdge>,
}

#[derive(Debug, Clone, Serialize)]
pub struct GraphNode {
    pub id: String,
    /// False: another condition, such as a path.
    pub service: bool,
    pub state: &'static str,
    pub up: bool,
}

/// `from` waits for `to`.
#[derive(Debug, Clone, Serialize)]
pub struct GraphEdge {
    pub from: String,
    pub to: String,
    pub event: String,
    pub holds: bool,
    pub alternative: bool,
}

impl From<&v1::GraphResponse> for Graph {
    fn from(graph: &v1::GraphResponse) -> Graph {
        let node = |node: &v1::GraphNode| GraphNode {
            id: node.id.clone(),
            service: node.is_service,
            state: state_name(node.state()),
            up: node.up,
        };
        let edge = |edge: &v1::GraphEdge| GraphEdge {
            from: edge.from.clone(),
            to: edge.to.clone(),
            event: edge.event.clone(),
            holds: edge.holds,
            alternative: edge.alternative,
        };
        Graph { nodes: graph.nodes.iter().map(node).collect(), edges: graph.edges.iter().map(edge).collect() }
    }
}
