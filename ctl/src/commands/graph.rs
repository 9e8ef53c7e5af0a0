//! `graph`: who waits for what, as text, as a drawing, or in the languages of graph tools.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use kelson_proto::v1::{GraphEdge, GraphNode, GraphRequest, GraphResponse, ListRequest};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::drawing::graph::{draw, node_tone};
use crate::output::drawing::xml;
use crate::output::tree::render_rows;
use crate::output::{Page, Palette, Tone, escape, print, state_name};

mod reduction;

/// Show the condition graph, with states
///
/// Examples:
///   kelsonctl graph
///   kelsonctl graph --reduce --format svg > graph.svg
///   kelsonctl graph --format dot | dot -Tpng > graph.png
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Draw it as
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    format: Option<Language>,
    /// Leave out each arrow that a longer way implies
    #[arg(short, long)]
    reduce: bool,
}

/// How a graph is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Language {
    /// An indented tree
    Text,
    /// A drawing for a browser
    Svg,
    /// For Graphviz
    Dot,
    /// For Markdown
    Mermaid,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let mut graph = answer(client.services().graph(GraphRequest {})).await?;
        if self.reduce {
            reduction::reduce(&mut graph.edges);
        }
        let shown = || text(&graph, call.terminal.palette, call.terminal.unicode);
        match self.format {
            None => call.show(&graph, || Page::Text(shown())),
            Some(Language::Text) => print(&shown()),
            Some(Language::Svg) => {
                let listed = answer(client.services().list(ListRequest::default())).await?;
                print(&draw(&graph, &listed.services))
            }
            Some(Language::Dot) => print(&dot(&graph)),
            Some(Language::Mermaid) => print(&mermaid(&graph)),
        }
    }
}

/// Draws the graph as a tree. Services that no other waits for stand at the left; below each, the services
/// that it waits for. A part that was shown is not repeated.
pub fn text(graph: &GraphResponse, palette: Palette, unicode: bool) -> String {
    let mut tree = Tree::new(graph, &graph.edges, palette);
    let waited_for: HashSet<&str> = graph.edges.iter().map(|edge| edge.to.as_str()).collect();
    let mut out = String::new();
    let tops = graph.nodes.iter().filter(|node| !waited_for.contains(node.id.as_str()));
    // A service left after the tops is in a cycle, or behind one.
    for node in tops.chain(&graph.nodes) {
        if !tree.shown.contains(node.id.as_str()) {
            out.push_str(&render_rows(&tree.rows(&node.id), unicode));
        }
    }
    out
}

/// Draws the services that one service waits for, and below it those that wait for it.
pub fn around(graph: &GraphResponse, name: &str, palette: Palette, unicode: bool) -> String {
    let heading = |text: &str| palette.paint(Tone::Strong, text) + "\n";
    let turned: Vec<GraphEdge> = graph
        .edges
        .iter()
        .map(|edge| GraphEdge { from: edge.to.clone(), to: edge.from.clone(), ..edge.clone() })
        .collect();
    let mut out = heading("waits for");
    out.push_str(&render_rows(&Tree::new(graph, &graph.edges, palette).rows(name), unicode));
    out.push_str(&heading("waited for by"));
    out.push_str(&render_rows(&Tree::new(graph, &turned, palette).rows(name), unicode));
    out
}

struct Tree<'a> {
    nodes: HashMap<&'a str, &'a GraphNode>,
    edges: HashMap<&'a str, Vec<&'a GraphEdge>>,
    shown: HashSet<&'a str>,
    palette: Palette,
}

impl<'a> Tree<'a> {
    /// `edges`: those of the graph, or all turned round.
    fn new(graph: &'a GraphResponse, edges: &'a [GraphEdge], palette: Palette) -> Tree<'a> {
        let mut tree = Tree {
            nodes: graph.nodes.iter().map(|node| (node.id.as_str(), node)).collect(),
            edges: HashMap::new(),
            shown: HashSet::new(),
            palette,
        };
        for edge in edges {
            tree.edges.entry(&edge.from).or_default().push(edge);
        }
        tree
    }

    /// A service and all below it, each with its depth. A chain may be as long as the host has services.
    fn rows(&mut self, id: &'a str) -> Vec<(usize, String)> {
        let mut rows = Vec::new();
        let mut open: Vec<(usize, &'a str, Option<&'a GraphEdge>)> = vec![(0, id, None)];
        while let Some((depth, id, by)) = open.pop() {
            let mut line = self.line(id, by);
            let edges = self.edges.get(id).map(Vec::as_slice).unwrap_or_default();
            if !self.shown.insert(id) && !edges.is_empty() {
                line = format!("{line}  {}", self.palette.paint(Tone::Quiet, "(see above)"));
            } else {
                open.extend(edges.iter().rev().map(|edge| (depth + 1, edge.to.as_str(), Some(*edge))));
            }
            rows.push((depth, line));
        }
        rows
    }

    fn line(&self, id: &str, by: Option<&GraphEdge>) -> String {
        let mut line = escape(id).into_owned();
        if let Some(node) = self.nodes.get(id) {
            let state = if node.is_service { state_name(node.state()) } else { "" };
            let state = match by {
                // A condition that is no service has no state: it holds or does not.
                Some(edge) if !node.is_service && edge.holds => "holds",
                Some(_) if !node.is_service => "does not hold",
                _ => state,
            };
            if !state.is_empty() {
                line = format!("{line}  {}", self.palette.paint(node_tone(node), state));
            }
        }
        if let Some(edge) = by {
            let mut notes = Vec::new();
            if !matches!(edge.event.as_str(), "" | "up") {
                notes.push(format!("to be {}", escape(&edge.event)));
            }
            if edge.alternative {
                notes.push("or another".to_owned());
            }
            if !notes.is_empty() {
                line = format!(
                    "{line}  {}",
                    self.palette.paint(Tone::Quiet, &format!("({})", notes.join(", ")))
                );
            }
        }
        line
    }
}

/// For Graphviz. An arrow points to what is waited for, and that stands left.
pub fn dot(graph: &GraphResponse) -> String {
    let quote = |text: &str| format!("\"{}\"", escape(text).replace('\\', "\\\\").replace('"', "\\\""));
    let mut out = String::from(
        "digraph kelson {\n  rankdir=RL;\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n",
    );
    for node in &graph.nodes {
        let tone = node_tone(node);
        let state = state_name(node.state());
        let label = if node.is_service && !state.is_empty() {
            let name = quote(&node.id);
            format!("{}\\n{state}\"", &name[..name.len() - 1])
        } else {
            quote(&node.id)
        };
        let shape = if node.is_service { "" } else { ", shape=ellipse, style=filled" };
        let (fill, line) = colours(tone);
        let _ = writeln!(
            out,
            "  {} [label={label}, fillcolor=\"{fill}\", color=\"{line}\"{shape}];",
            quote(&node.id)
        );
    }
    for edge in &graph.edges {
        let mut notes = Vec::new();
        if !edge.event.is_empty() {
            notes.push(format!("label={}", quote(&edge.event)));
        }
        match (edge.holds, edge.alternative) {
            (false, _) => notes.push("style=dashed, color=\"#9a6700\"".to_owned()),
            (true, true) => notes.push("style=dotted".to_owned()),
            (true, false) => {}
        }
        let notes = if notes.is_empty() { String::new() } else { format!(" [{}]", notes.join(", ")) };
        let _ = writeln!(out, "  {} -> {}{notes};", quote(&edge.from), quote(&edge.to));
    }
    out.push_str("}\n");
    out
}

/// For Markdown that knows Mermaid.
fn mermaid(graph: &GraphResponse) -> String {
    // Mermaid's identifiers are narrow: nodes are numbered, names stand in the labels.
    let label = |text: &str| {
        xml(text).replace("&quot;", "#quot;").replace("&#39;", "'").replace('&', "#").replace("##", "#")
    };
    let mut out = String::from("flowchart RL\n");
    let mut numbers = HashMap::new();
    for (number, node) in graph.nodes.iter().enumerate() {
        numbers.insert(node.id.as_str(), number);
        let state = state_name(node.state());
        let (open, close) = if node.is_service { ("(\"", "\")") } else { ("([\"", "\"])") };
        let state = if node.is_service && !state.is_empty() { format!("<br>{state}") } else { String::new() };
        let class = node_tone(node).class();
        let _ = writeln!(out, "  n{number}{open}{}{state}{close}:::{class}", label(&node.id));
    }
    for edge in &graph.edges {
        let (Some(from), Some(to)) = (numbers.get(edge.from.as_str()), numbers.get(edge.to.as_str())) else {
            continue;
        };
        let arrow = if edge.holds { "-->" } else { "-.->" };
        let event = if edge.event.is_empty() { String::new() } else { format!("|{}|", label(&edge.event)) };
        let _ = writeln!(out, "  n{from} {arrow}{event} n{to}");
    }
    for tone in [Tone::Plain, Tone::Quiet, Tone::Good, Tone::Busy, Tone::Waiting, Tone::Bad] {
        let (fill, line) = colours(tone);
        let _ = writeln!(out, "  classDef {} fill:{fill},stroke:{line},color:#1f2328", tone.class());
    }
    out
}

/// The ground and the line of a box.
fn colours(tone: Tone) -> (&'static str, &'static str) {
    match tone {
        Tone::Plain | Tone::Strong => ("#f6f8fa", "#818b98"),
        Tone::Quiet => ("#f6f8fa", "#afb8c1"),
        Tone::Good => ("#dafbe1", "#1a7f37"),
        Tone::Busy => ("#ddf4ff", "#0969da"),
        Tone::Waiting => ("#fff8c5", "#9a6700"),
        Tone::Bad => ("#ffebe9", "#cf222e"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{edge, node};
    use kelson_proto::v1::State;

    #[test]
    fn a_cycle_ends() {
        let nodes = ["db", "web"].map(|name| node(name, State::Running)).to_vec();
        let edges = vec![edge("db", "web", "up", true), edge("web", "db", "up", true)];
        assert_eq!(
            text(&GraphResponse { nodes, edges }, Palette::None, true),
            "db  running\n└─ web  running\n   └─ db  running  (see above)\n"
        );
    }
}
