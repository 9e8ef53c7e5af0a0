//! The condition graph as a drawing: boxes coloured by state, curves to what is waited for.

use std::collections::HashMap;
use std::fmt::Write as _;

use kelson_proto::v1::{GraphEdge, GraphNode, GraphResponse};

use super::{Drawing, text_width, xml};
use crate::output::layout::{Layout, Size, layout};
use crate::output::style::{Tone, state_name, state_tone};
use crate::output::text::{escape, fit};

/// Longest label, in characters.
const LABEL: usize = 48;
/// What the head above the graph takes.
const HEAD: f64 = 56.0;

/// The colour of a node.
pub fn node_tone(node: &GraphNode, edges: &[GraphEdge]) -> Tone {
    if node.is_service {
        return state_tone(node.state(), node.up);
    }
    // Another condition holds for all that wait for it, or for none.
    match edges.iter().find(|edge| edge.to == node.id) {
        Some(edge) if edge.holds => Tone::Good,
        Some(_) => Tone::Waiting,
        None => Tone::Plain,
    }
}

/// The graph as SVG.
pub fn draw(graph: &GraphResponse) -> String {
    let index: HashMap<&str, usize> =
        graph.nodes.iter().enumerate().map(|(place, node)| (node.id.as_str(), place)).collect();
    let labels: Vec<String> =
        graph.nodes.iter().map(|node| fit(&escape(&node.id), LABEL).into_owned()).collect();
    let sizes: Vec<Size> = graph
        .nodes
        .iter()
        .zip(&labels)
        .map(|(node, label)| {
            let state = if node.is_service { state_name(node.state()) } else { "" };
            let widest = text_width(label).max(text_width(state) * 0.85);
            Size { width: widest.max(48.0) + 26.0, height: if node.is_service { 42.0 } else { 28.0 } }
        })
        .collect();
    let (edges, pairs): (Vec<&GraphEdge>, Vec<(usize, usize)>) = graph
        .edges
        .iter()
        .filter_map(|edge| Some((edge, (*index.get(edge.from.as_str())?, *index.get(edge.to.as_str())?))))
        .unzip();
    let places = layout(&sizes, &pairs);

    let mut drawing = Drawing::default();
    drawing.add(
        "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path d=\"M0,0.5 L8,4 L0,7.5 z\" class=\"tip\"/></marker><marker id=\"opentip\" \
         viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path \
         d=\"M0,0.5 L8,4 L0,7.5 z\" class=\"opentip\"/></marker></defs>",
    );
    drawing.text(24.0, 26.0, "head", "Conditions");
    drawing.text(
        24.0,
        44.0,
        "small mute",
        "An arrow points to what is waited for; dashed: it does not hold yet.",
    );
    drawing.add(&format!("<g transform=\"translate(0 {HEAD})\">"));
    draw_edges(&mut drawing, &edges, &places);
    for ((node, label), place) in graph.nodes.iter().zip(&labels).zip(&places.places) {
        let tone = node_tone(node, &graph.edges);
        let corner = if node.is_service { 7.0 } else { place.height / 2.0 };
        drawing.add(&format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{corner:.1}\" class=\"box {}\">\
             <title>{}</title></rect>",
            place.x,
            place.y,
            place.width,
            place.height,
            tone.class(),
            xml(&node.id)
        ));
        let middle = place.x + place.width / 2.0;
        if node.is_service {
            drawing.text(middle, place.y + 18.5, "middle", label);
            drawing.text(middle, place.y + 33.5, "middle small mute", state_name(node.state()));
        } else {
            drawing.text(middle, place.y + place.height / 2.0 + 4.5, "middle", label);
        }
    }
    drawing.add("</g>");
    drawing.finish(places.width.max(420.0), places.height + HEAD, "Kelson: the condition graph")
}

fn draw_edges(drawing: &mut Drawing, edges: &[&GraphEdge], places: &Layout) {
    let mut labels = Vec::new();
    for (edge, route) in edges.iter().zip(&places.routes) {
        let open = !edge.holds;
        drawing.add(&format!(
            "<path d=\"{}\" class=\"edge{}\" marker-end=\"url(#{})\"/>",
            curve(route),
            if open { " open" } else { "" },
            if open { "opentip" } else { "tip" }
        ));
        let mut label =
            if matches!(edge.event.as_str(), "" | "up") { String::new() } else { edge.event.clone() };
        if edge.alternative {
            label = if label.is_empty() { "any".to_owned() } else { format!("any: {label}") };
        }
        if let (false, [.., before, end]) = (label.is_empty(), route.as_slice()) {
            labels.push(((before.0 + end.0) / 2.0, (before.1 + end.1) / 2.0 + 3.5, label));
        }
    }
    // Last, so that no edge crosses them out.
    for (x, y, label) in labels {
        drawing.text(x, y, "middle small mute halo", &label);
    }
}

/// A smooth path through the points, level at each of them.
fn curve(route: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (place, &(x, y)) in route.iter().enumerate() {
        let written = match place.checked_sub(1).map(|last| route[last]) {
            None => write!(path, "M{x:.1},{y:.1}"),
            Some((_, last_y)) if (last_y - y).abs() < 0.05 => write!(path, " L{x:.1},{y:.1}"),
            Some((last_x, last_y)) => {
                let middle = (last_x + x) / 2.0;
                write!(path, " C{middle:.1},{last_y:.1} {middle:.1},{y:.1} {x:.1},{y:.1}")
            }
        };
        debug_assert!(written.is_ok(), "writing into a String does not fail");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::super::check::elements;
    use super::*;
    use kelson_proto::v1::State;

    fn node(id: &str, state: State, up: bool) -> GraphNode {
        GraphNode { id: id.to_owned(), is_service: state != State::Unspecified, state: state.into(), up }
    }

    fn edge(from: &str, to: &str, event: &str, holds: bool) -> GraphEdge {
        GraphEdge {
            from: from.to_owned(),
            to: to.to_owned(),
            event: event.to_owned(),
            holds,
            alternative: false,
        }
    }

    #[test]
    fn every_node_is_a_box_and_every_edge_a_curve() {
        let graph = GraphResponse {
            nodes: vec![
                node("db", State::Running, true),
                node("migrate", State::Failed, false),
                node("web", State::Waiting, false),
                node("path \"/run/<x>\" to exist", State::Unspecified, false),
            ],
            edges: vec![
                edge("migrate", "db", "up", true),
                edge("web", "migrate", "finished", false),
                edge("web", "path \"/run/<x>\" to exist", "", false),
                edge("web", "not in the graph", "up", false),
            ],
        };
        let svg = draw(&graph);
        let elements = elements(&svg);
        let count = |name: &str| elements.iter().filter(|e| *e == name).count();
        assert_eq!(count("rect"), 4);
        assert_eq!(count("path"), 2 + 3, "two arrow heads and the three edges between known nodes");
        assert_eq!(count("marker"), 2);
        for part in ["box good", "box bad", "box waiting", "&lt;x&gt;", ">finished<", "edge open"] {
            assert!(svg.contains(part), "{part} is in:\n{svg}");
        }
    }

    #[test]
    fn an_empty_graph_is_a_drawing_too() {
        assert!(elements(&draw(&GraphResponse::default())).contains(&"svg".to_owned()));
    }

    #[test]
    fn a_level_edge_is_straight() {
        assert_eq!(curve(&[(9.0, 5.0), (1.0, 5.0)]), "M9.0,5.0 L1.0,5.0");
        assert_eq!(curve(&[(9.0, 5.0), (1.0, 7.0)]), "M9.0,5.0 C5.0,5.0 5.0,7.0 1.0,7.0");
    }
}
