//! `why` and `graph`, as programs read them.

use kelson_proto::v1;
use serde::Serialize;

use super::super::style::state_name;

/// One link of `why`.
#[derive(Debug, Clone, Serialize)]
pub struct Reason {
    pub subject: String,
    pub text: String,
    /// Empty where it is no service.
    pub state: &'static str,
    pub holds: bool,
    pub causes: Vec<Reason>,
}

impl From<&v1::Reason> for Reason {
    fn from(reason: &v1::Reason) -> Reason {
        Reason {
            subject: reason.subject.clone(),
            text: reason.text.clone(),
            state: state_name(reason.state()),
            holds: reason.holds,
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
