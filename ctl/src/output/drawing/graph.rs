//! The condition graph as a drawing: boxes coloured by state, curves to what is waited for.

use std::collections::HashMap;

use kelson_proto::v1::{GraphEdge, GraphNode, GraphResponse, Service, State};

use super::layout::{Layout, Place, Route, Size, layout};
use super::legend::head;
use super::measure::{Font, fit_width, text_width};
use super::{Drawing, xml};
use crate::output::style::{Tone, state_name, state_tone};

/// The widest that a name and the line below it may be.
const WIDEST: f64 = 250.0;
/// Between the side of a box and its text.
const PADDING: f64 = 13.0;
/// Narrower the legend has no room.
const NARROWEST: f64 = 800.0;

const LEGEND: &[(&str, &str)] = &[
    ("box good", "up, or it holds"),
    ("box busy", "preparing, starting or stopping"),
    ("box waiting", "waits, or is not up yet"),
    ("box bad", "failed, or in backoff"),
    ("box quiet", "not started, stopped or skipped"),
];

/// The colour of a node.
pub fn node_tone(node: &GraphNode) -> Tone {
    if node.is_service {
        return state_tone(node.state(), node.up);
    }
    if node.up { Tone::Good } else { Tone::Waiting }
}

/// A node as it is drawn.
struct Card<'a> {
    node: &'a GraphNode,
    tone: Tone,
    name: String,
    /// Empty where it is no service.
    state: String,
    /// The conditions that it waits for, or the reason why it is not up.
    why: String,
    /// All of it, for who points at it.
    title: String,
}

impl<'a> Card<'a> {
    fn new(node: &'a GraphNode, service: Option<&Service>) -> Card<'a> {
        let font = if node.is_service { Font::Name } else { Font::Text };
        let mut state = if node.is_service { state_name(node.state()).to_owned() } else { String::new() };
        if service.is_some_and(|service| service.builtin) {
            state += if state.is_empty() { "built-in" } else { " · built-in" };
        }
        let why = match service {
            Some(service) if !node.up && !service.waiting_for.is_empty() => {
                format!("waits for {}", service.waiting_for.join(", "))
            }
            Some(service) if !node.up && matches!(node.state(), State::Failed | State::Backoff) => {
                service.message.clone()
            }
            _ => String::new(),
        };
        let parts = [node.id.as_str(), &state, &why];
        let said: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Card {
            tone: node_tone(node),
            name: fit_width(&node.id, font, WIDEST),
            why: fit_width(&why, Font::Small, WIDEST),
            title: said.join(": "),
            state,
            node,
        }
    }

    fn size(&self) -> Size {
        let font = if self.node.is_service { Font::Name } else { Font::Text };
        let widest = [(&self.name, font), (&self.state, Font::Small), (&self.why, Font::Small)]
            .into_iter()
            .map(|(text, font)| text_width(text, font))
            .fold(48.0, f64::max);
        let height = match (self.node.is_service, self.why.is_empty()) {
            (false, _) => 28.0,
            (true, true) => 42.0,
            (true, false) => 58.0,
        };
        Size { width: widest + 2.0 * PADDING, height }
    }

    fn draw(&self, drawing: &mut Drawing, place: &Place) {
        let corner = if self.node.is_service { 7.0 } else { place.height / 2.0 };
        let class = format!("box {}", self.tone.class());
        drawing.rect((place.x, place.y), (place.width, place.height), corner, &class, &self.title);
        let middle = place.x + place.width / 2.0;
        if !self.node.is_service {
            drawing.text(middle, place.y + place.height / 2.0 + 4.5, "middle", &self.name);
            return;
        }
        drawing.text(middle, place.y + 18.5, "middle name", &self.name);
        drawing.text(middle, place.y + 33.5, &format!("middle small say-{}", self.tone.class()), &self.state);
        if !self.why.is_empty() {
            drawing.text(middle, place.y + 48.5, "middle small mute", &self.why);
        }
    }
}

/// The graph as SVG. `services` tell what the graph does not: who is built in, and what each still waits for.
pub fn draw(graph: &GraphResponse, services: &[Service]) -> String {
    let index: HashMap<&str, usize> =
        graph.nodes.iter().enumerate().map(|(place, node)| (node.id.as_str(), place)).collect();
    let known: HashMap<&str, &Service> =
        services.iter().map(|service| (service.name.as_str(), service)).collect();
    let card = |node| Card::new(node, known.get(node.id.as_str()).copied());
    let cards: Vec<Card> = graph.nodes.iter().map(card).collect();
    let sizes: Vec<Size> = cards.iter().map(Card::size).collect();
    let (edges, pairs): (Vec<&GraphEdge>, Vec<(usize, usize)>) = graph
        .edges
        .iter()
        .filter_map(|edge| Some((edge, (*index.get(edge.from.as_str())?, *index.get(edge.to.as_str())?))))
        .unzip();
    let places = layout(&sizes, &pairs);
    let width = places.width.max(NARROWEST);

    let mut drawing = Drawing::default();
    drawing.add(include_str!("graph/tips.svg").trim_end());
    let arrows = "An arrow points to what is waited for, to be up where nothing else is written; dashed: it does not hold yet.";
    let head = head(&mut drawing, width, "Who waits for what", arrows, LEGEND);
    drawing.add(&format!("<g transform=\"translate(0 {head})\">"));
    draw_edges(&mut drawing, &edges, &places);
    for (card, place) in cards.iter().zip(&places.places) {
        card.draw(&mut drawing, place);
    }
    drawing.add("</g>");
    drawing.finish(width, places.height + head, "Kelson: who waits for what", &about(graph))
}

/// The whole in a sentence.
fn about(graph: &GraphResponse) -> String {
    let services = graph.nodes.iter().filter(|node| node.is_service);
    let (up, all) = (services.clone().filter(|node| node.up).count(), services.clone().count());
    let not_up: Vec<String> = services
        .filter(|node| !node.up)
        .map(|node| format!("{} {}", node.id, state_name(node.state())))
        .collect();
    let rest = if not_up.is_empty() { String::new() } else { format!("; not up: {}", not_up.join(", ")) };
    format!("{up} of {all} services are up{rest}")
}

fn draw_edges(drawing: &mut Drawing, edges: &[&GraphEdge], places: &Layout) {
    let mut labels: Vec<(Place, String)> = Vec::new();
    for (edge, route) in edges.iter().zip(&places.routes) {
        let (class, tip) = if edge.holds { ("edge", "tip") } else { ("edge open", "opentip") };
        drawing.add(&format!(
            "<path d=\"{}\" class=\"{class}\" marker-end=\"url(#{tip})\"><title>{}</title></path>",
            curve(route),
            xml(&title(edge))
        ));
        let mut label =
            if matches!(edge.event.as_str(), "" | "up") { String::new() } else { edge.event.clone() };
        if edge.alternative {
            label = if label.is_empty() { "any".to_owned() } else { format!("any: {label}") };
        }
        if !label.is_empty() {
            labels.push((beside(route, &label, &labels), label));
        }
    }
    // Last, so that no edge crosses them out.
    for (place, label) in labels {
        drawing.text(place.x + place.width / 2.0, place.y + 10.5, "middle small mute halo", &label);
    }
}

fn title(edge: &GraphEdge) -> String {
    let event = if edge.event.is_empty() { String::new() } else { format!(" to be {}", edge.event) };
    let holds = if edge.holds { "it holds" } else { "it does not hold yet" };
    format!("{} waits for {}{event}: {holds}", edge.from, edge.to)
}

/// Where a label of an edge stands: on one of its curves, not over another label if that can be.
fn beside(route: &Route, label: &str, others: &[(Place, String)]) -> Place {
    let (width, height) = (text_width(label, Font::Small), 14.0);
    let free = |place: &Place| {
        others.iter().all(|(other, _)| {
            place.x >= other.x + other.width + 2.0
                || other.x >= place.x + place.width + 2.0
                || place.y >= other.y + height
                || other.y >= place.y + height
        })
    };
    // Curves lie between layers; the pieces between them pass behind boxes of their layer.
    let spots = route.chunks(2).flat_map(|pair| match pair {
        [a, b] => [0.5, 0.4, 0.6, 0.3, 0.7]
            .map(|share| {
                // The same cubic as in `curve`.
                let ease = share * share * (3.0 - 2.0 * share);
                let (x, y) = (a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * ease);
                Place { x: x - width / 2.0, y: y - height / 2.0, width, height }
            })
            .to_vec(),
        _ => Vec::new(),
    });
    let spots: Vec<Place> = spots.collect();
    spots.iter().find(|place| free(place)).or(spots.first()).copied().unwrap_or_default()
}

/// A smooth path through the points, level at each of them.
fn curve(route: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (place, &(x, y)) in route.iter().enumerate() {
        path += &match place.checked_sub(1).map(|last| route[last]) {
            None => format!("M{x:.1},{y:.1}"),
            Some((_, last_y)) if (last_y - y).abs() < 0.05 => format!(" L{x:.1},{y:.1}"),
            Some((last_x, last_y)) => {
                let middle = (last_x + x) / 2.0;
                format!(" C{middle:.1},{last_y:.1} {middle:.1},{y:.1} {x:.1},{y:.1}")
            }
        };
    }
    path
}

#[cfg(test)]
mod tests;
