//! The transitive reduction of the graph: without the edges that others imply.

use std::collections::{HashMap, HashSet};

use kelson_proto::v1::GraphEdge;

/// Removes each edge whose target is waited for, with the same event, by something else that its origin waits for.
/// Alternatives and waits for the event `down` imply nothing and stay; so do edges of a cycle.
pub fn reduce(edges: &mut Vec<GraphEdge>) {
    let is_strict = |edge: &GraphEdge| !edge.alternative && edge.event != "down";
    let mut after: HashMap<&str, Vec<&GraphEdge>> = HashMap::new();
    for edge in edges.iter().filter(|edge| is_strict(edge)) {
        after.entry(&edge.from).or_default().push(edge);
    }
    let stay: Vec<bool> = edges.iter().map(|edge| !is_strict(edge) || !is_implied(edge, &after)).collect();
    let mut stay = stay.into_iter();
    edges.retain(|_| stay.next().unwrap_or(true));
}

fn is_implied(edge: &GraphEdge, after: &HashMap<&str, Vec<&GraphEdge>>) -> bool {
    let implies =
        |other: &&GraphEdge| other.to == edge.to && other.from != edge.from && other.event == edge.event;
    let is_cycle = || ways(&edge.to, &edge.from, after).iter().any(|other| other.to == edge.from);
    ways(&edge.from, &edge.to, after).iter().any(implies) && !is_cycle()
}

/// All edges on the ways from one node, none of them beyond another node.
fn ways<'a>(from: &'a str, end: &str, after: &HashMap<&str, Vec<&'a GraphEdge>>) -> Vec<&'a GraphEdge> {
    let mut seen = HashSet::from([from]);
    let mut left = vec![from];
    let mut edges = Vec::new();
    while let Some(id) = left.pop() {
        for &edge in after.get(id).into_iter().flatten() {
            edges.push(edge);
            if edge.to != end && seen.insert(&edge.to) {
                left.push(&edge.to);
            }
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(edges: &[(&str, &str, &str)]) -> Vec<String> {
        let edge = |(from, to, event): &(&str, &str, &str)| {
            let (event, alternative) =
                event.strip_prefix("any ").map_or((*event, false), |event| (event, true));
            GraphEdge { alternative, ..crate::samples::edge(from, to, event, true) }
        };
        let mut edges: Vec<GraphEdge> = edges.iter().map(edge).collect();
        reduce(&mut edges);
        edges.iter().map(|edge| format!("{} {}", edge.from, edge.to)).collect()
    }

    #[test]
    fn an_edge_that_a_longer_way_implies_is_left_out() {
        let demo = [
            ("redis", "containerd", "up"),
            ("seed", "redis", "up"),
            ("seed", "containerd", "up"),
            ("web", "seed", "finished"),
            ("web", "redis", "up"),
            ("web", "containerd", "up"),
        ];
        assert_eq!(reduced(&demo), ["redis containerd", "seed redis", "web seed"]);
    }

    #[test]
    fn what_implies_nothing_leaves_all() {
        let stay = [
            // Another event of it.
            vec![("a", "b", "up"), ("b", "c", "up"), ("a", "c", "finished")],
            // Another may do.
            vec![("a", "b", "any up"), ("b", "c", "up"), ("a", "c", "up")],
            // The other is down then.
            vec![("a", "b", "down"), ("b", "c", "up"), ("a", "c", "up")],
            // A cycle.
            vec![("a", "b", "up"), ("b", "c", "up"), ("a", "c", "up"), ("c", "a", "up")],
        ];
        for edges in stay {
            assert_eq!(reduced(&edges).len(), edges.len(), "{edges:?}");
        }
    }
}
