//! Where the boxes of a graph go: in layers from left to right, what is waited for left of what waits.
//!
//! The usual steps (after Sugiyama), for each part of the graph that hangs together: edges that would close a cycle are
//! turned round, each node gets a [layer](layers), edges that pass through layers get waypoints, each layer an
//! [order](order) with few crossings, and its items [heights](heights) that make edges straight. The boxes of a layer are as wide
//! as its widest, so that edges move up and down between layers alone, where no box is. The parts are then put side by side; nodes
//! without any edge stand in a grid below.

mod heights;
mod layers;
mod order;
mod sketch;

use heights::{LANE, heights};
pub use sketch::Size;
use sketch::{Item, Sketch};

/// A box in its place, by its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Place {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// Points of an edge, from the node that waits to what it waits for. It is level at each of them.
pub type Route = Vec<(f64, f64)>;

/// The whole drawing.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    pub width: f64,
    pub height: f64,
    /// In the order of the nodes given.
    pub places: Vec<Place>,
    /// In the order of the edges given.
    pub routes: Vec<Route>,
}

/// Around all.
pub const MARGIN: f64 = 24.0;
/// Between two layers: here edges find their way, for each of which it is a little wider, up to a bound.
const COLUMN_GAP: f64 = 88.0;
const EDGE_ROOM: f64 = 2.0;
const MOST_ROOM: f64 = 120.0;
/// Between two boxes of the grid, and more of it between two parts.
const GAP: f64 = 16.0;
/// Parts stand side by side, and boxes without an edge in rows, up to about this width.
const PAGE: f64 = 1100.0;

/// Lays the graph out. An edge `(from, to)` says that `from` waits for `to`; both are indices into `sizes`.
pub fn layout(sizes: &[Size], edges: &[(usize, usize)]) -> Layout {
    let part_of = layers::parts(sizes.len(), edges);
    let mut members = vec![Vec::new(); sizes.len()];
    for (node, part) in part_of.iter().enumerate() {
        members[*part].push(node);
    }
    let mut linked = vec![false; sizes.len()];
    edges.iter().for_each(|&(from, to)| (linked[from], linked[to]) = (true, true));
    let mut parts: Vec<&Vec<usize>> =
        members.iter().filter(|part| part.first().is_some_and(|&node| linked[node])).collect();
    // The largest first; those of one size as they were given.
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));

    let mut whole = Layout {
        width: 2.0 * MARGIN,
        height: MARGIN,
        places: vec![Place::default(); sizes.len()],
        routes: vec![Route::new(); edges.len()],
    };
    let (mut x, mut top) = (MARGIN, MARGIN);
    for part in parts {
        let mine: Vec<usize> =
            (0..edges.len()).filter(|&edge| part.binary_search(&edges[edge].0).is_ok()).collect();
        let drawn = lay_out_part(sizes, edges, part, &mine);
        if x > MARGIN && x + drawn.width > whole.width.max(PAGE) - MARGIN {
            (x, top) = (MARGIN, whole.height + GAP);
        }
        for (place, &node) in drawn.places.iter().zip(part) {
            whole.places[node] = Place { x: place.x + x, y: place.y + top, ..*place };
        }
        for (route, &edge) in drawn.routes.into_iter().zip(&mine) {
            whole.routes[edge] = route.into_iter().map(|(rx, ry)| (rx + x, ry + top)).collect();
        }
        x += drawn.width;
        whole.width = whole.width.max(x + MARGIN);
        whole.height = whole.height.max(top + drawn.height + GAP);
        x += 2.0 * MARGIN;
    }
    grid(sizes, &linked, &mut whole);
    whole.height = whole.height - GAP + MARGIN;
    whole
}

/// One part, its upper left corner at 0, 0; places and routes in the order of its nodes and edges.
fn lay_out_part(sizes: &[Size], all: &[(usize, usize)], part: &[usize], mine: &[usize]) -> Layout {
    let own = |node: usize| part.binary_search(&node).unwrap_or(0);
    let sizes: Vec<Size> = part.iter().map(|&node| sizes[node]).collect();
    let edges: Vec<(usize, usize)> = mine.iter().map(|&edge| (own(all[edge].0), own(all[edge].1))).collect();
    let mut sketch = Sketch::new(&sizes, &edges);
    order::order(&mut sketch);
    heights(&mut sketch);
    sketch.finish()
}

impl<'a> Sketch<'a> {
    fn new(sizes: &'a [Size], edges: &'a [(usize, usize)]) -> Sketch<'a> {
        let turned = layers::turned(sizes.len(), edges);
        let directed: Vec<(usize, usize)> = edges
            .iter()
            .zip(&turned)
            .map(|(&(from, to), turned)| if *turned { (to, from) } else { (from, to) })
            .collect();
        let layer_of = layers::layers(sizes.len(), &directed);
        let count = layer_of.iter().max().map_or(0, |last| last + 1);
        let mut sketch = Sketch {
            sizes,
            edges,
            layers: vec![Vec::new(); count],
            before: vec![Vec::new(); sizes.len()],
            after: vec![Vec::new(); sizes.len()],
            chains: Vec::with_capacity(edges.len()),
            middle: vec![0.0; sizes.len()],
        };
        (0..sizes.len()).for_each(|node| sketch.layers[layer_of[node]].push(node));
        for (from, to) in directed {
            if from == to {
                sketch.chains.push(Vec::new());
                continue;
            }
            let mut chain = vec![from];
            for layer in (layer_of[to] + 1..layer_of[from]).rev() {
                let waypoint = sketch.before.len();
                sketch.before.push(Vec::new());
                sketch.after.push(Vec::new());
                sketch.middle.push(0.0);
                sketch.layers[layer].push(waypoint);
                chain.push(waypoint);
            }
            chain.push(to);
            for pair in chain.windows(2) {
                sketch.before[pair[0]].push(pair[1]);
                sketch.after[pair[1]].push(pair[0]);
            }
            sketch.chains.push(chain);
        }
        sketch
    }

    fn is_waypoint(&self, item: Item) -> bool {
        item >= self.sizes.len()
    }

    fn height(&self, item: Item) -> f64 {
        self.sizes.get(item).map_or(LANE, |size| size.height)
    }

    /// Turns layers and heights into places, and chains into routes.
    fn finish(mut self) -> Layout {
        let items = || self.layers.iter().flatten();
        let top =
            items().map(|&item| self.middle[item] - self.height(item) / 2.0).fold(f64::INFINITY, f64::min);
        self.middle.iter_mut().for_each(|middle| *middle -= top);
        let mut layout = Layout { places: vec![Place::default(); self.sizes.len()], ..Layout::default() };
        let (mut left, mut right) = (vec![0.0; self.before.len()], vec![0.0; self.before.len()]);
        let mut x = 0.0;
        for layer in &self.layers {
            if layout.width > 0.0 {
                let edges: usize = layer.iter().map(|&item| self.before[item].len()).sum();
                x += COLUMN_GAP + (edges as f64 * EDGE_ROOM).min(MOST_ROOM);
            }
            let column =
                layer.iter().filter_map(|&item| self.sizes.get(item)).map(|s| s.width).fold(0.0, f64::max);
            for &item in layer {
                (left[item], right[item]) = (x, x + column);
                let height = self.height(item);
                layout.height = layout.height.max(self.middle[item] + height / 2.0);
                if let Some(place) = layout.places.get_mut(item) {
                    *place = Place { x, y: self.middle[item] - height / 2.0, width: column, height };
                }
            }
            x += column;
            layout.width = x;
        }
        layout.routes = (0..self.edges.len()).map(|edge| self.route(edge, &left, &right)).collect();
        layout
    }

    fn route(&self, edge: usize, left: &[f64], right: &[f64]) -> Route {
        let chain = &self.chains[edge];
        let ([first, .., last], node) = (chain.as_slice(), self.edges[edge].0) else {
            // To itself: a loop at its right side.
            let node = self.edges[edge].0;
            let (x, y) = (right[node], self.middle[node]);
            return vec![(x, y - 8.0), (x + 20.0, y), (x, y + 8.0)];
        };
        let mut route = vec![(left[*first], self.port(*first, edge, true))];
        for &waypoint in &chain[1..chain.len() - 1] {
            route.extend([(right[waypoint], self.middle[waypoint]), (left[waypoint], self.middle[waypoint])]);
        }
        route.push((right[*last], self.port(*last, edge, false)));
        if node != *first {
            route.reverse();
        }
        route
    }

    /// The height at which an edge leaves a box: at each side in the order of where the edges lead.
    fn port(&self, node: usize, own: usize, at_left: bool) -> f64 {
        let mut ends: Vec<(f64, usize)> = Vec::new();
        for (edge, chain) in self.chains.iter().enumerate() {
            match chain.as_slice() {
                [first, next, ..] if at_left && *first == node => ends.push((self.middle[*next], edge)),
                [.., next, last] if !at_left && *last == node => ends.push((self.middle[*next], edge)),
                _ => {}
            }
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let place = ends.iter().position(|(_, edge)| *edge == own).unwrap_or(0);
        let share = (place as f64 + 0.5) / ends.len().max(1) as f64;
        self.middle[node] + (share - 0.5) * self.height(node) * 0.64
    }
}

/// The nodes without edges, in rows below the rest.
fn grid(sizes: &[Size], linked: &[bool], layout: &mut Layout) {
    let loose: Vec<usize> = (0..sizes.len()).filter(|&node| !linked[node]).collect();
    if loose.is_empty() {
        return;
    }
    if layout.height > MARGIN {
        layout.height += GAP;
    }
    let most = |side: fn(&Size) -> f64| loose.iter().map(|&node| side(&sizes[node])).fold(1.0, f64::max);
    let (width, height) = (most(|size| size.width), most(|size| size.height));
    let room = PAGE.max(layout.width) - 2.0 * MARGIN + GAP;
    let columns = ((room / (width + GAP)).floor() as usize).clamp(1, loose.len());
    for (index, &node) in loose.iter().enumerate() {
        let x = MARGIN + (width + GAP) * (index % columns) as f64;
        let y = layout.height + (height + GAP) * (index / columns) as f64;
        layout.places[node] = Place { x, y, width, height: sizes[node].height };
    }
    layout.width = layout.width.max((width + GAP) * columns as f64 - GAP + 2.0 * MARGIN);
    layout.height += (height + GAP) * loose.len().div_ceil(columns) as f64;
}

#[cfg(test)]
mod tests;
