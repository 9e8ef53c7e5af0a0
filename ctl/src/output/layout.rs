//! Where the boxes of a graph go: in layers from left to right, what is waited for left of what waits.
//!
//! The usual four steps (after Sugiyama): a layer for each node, waypoints for edges that pass through layers, an order within each
//! layer with few crossings, and heights that make edges straight. Nodes without any edge stand in a grid below.

/// A box to be placed.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub width: f64,
    pub height: f64,
}

/// A box in its place, by its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// The whole drawing.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    pub width: f64,
    pub height: f64,
    /// In the order of the nodes given.
    pub places: Vec<Place>,
    /// In the order of the edges given: points from the node that waits to what it waits for.
    pub routes: Vec<Vec<(f64, f64)>>,
}

const MARGIN: f64 = 24.0;
/// Between two layers.
const COLUMN_GAP: f64 = 72.0;
/// Between two boxes of a layer.
const ROW_GAP: f64 = 14.0;
/// What an edge that passes through a layer takes of its height.
const LANE: f64 = 8.0;
/// Boxes without an edge stand in rows about this wide.
const GRID_WIDTH: f64 = 1100.0;

/// A node, or (above the nodes' number) a waypoint of an edge.
type Item = usize;

/// The graph while it is laid out: nodes and waypoints in layers.
struct Sketch<'a> {
    sizes: &'a [Size],
    layers: Vec<Vec<Item>>,
    /// For each item: its neighbours in the layer before and in the one after.
    before: Vec<Vec<Item>>,
    after: Vec<Vec<Item>>,
    /// For each edge: its items from the node that waits down to what it waits for.
    chains: Vec<Vec<Item>>,
    /// The middle of each item.
    middle: Vec<f64>,
}

/// Lays the graph out. An edge `(from, to)` says that `from` waits for `to`; both are indices into `sizes`.
pub fn layout(sizes: &[Size], edges: &[(usize, usize)]) -> Layout {
    let layer_of = layers(sizes.len(), edges);
    let mut linked = vec![false; sizes.len()];
    for &(from, to) in edges {
        linked[from] = true;
        linked[to] = true;
    }
    let mut sketch = Sketch::new(sizes, edges, &layer_of, &linked);
    sketch.order();
    sketch.align();
    sketch.finish(edges, &linked)
}

/// The layer of each node: one more than the largest of those it waits for. Nodes of a cycle, which cannot be
/// ordered, come last.
fn layers(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut open = vec![0usize; count];
    let mut waiters = vec![Vec::new(); count];
    for &(from, to) in edges {
        open[from] += 1;
        waiters[to].push(from);
    }
    let mut layer = vec![0; count];
    let mut ready: Vec<usize> = (0..count).filter(|&node| open[node] == 0).collect();
    let mut next = 0;
    while let Some(&node) = ready.get(next) {
        next += 1;
        for &waiter in &waiters[node] {
            layer[waiter] = layer[waiter].max(layer[node] + 1);
            open[waiter] -= 1;
            if open[waiter] == 0 {
                ready.push(waiter);
            }
        }
    }
    let last = layer.iter().max().map_or(0, |last| last + 1);
    for node in 0..count {
        if open[node] > 0 {
            layer[node] = last;
        }
    }
    layer
}

impl<'a> Sketch<'a> {
    fn new(sizes: &'a [Size], edges: &[(usize, usize)], layer_of: &[usize], linked: &[bool]) -> Sketch<'a> {
        let count = layer_of.iter().max().map_or(0, |last| last + 1);
        let mut sketch = Sketch {
            sizes,
            layers: vec![Vec::new(); count],
            before: vec![Vec::new(); sizes.len()],
            after: vec![Vec::new(); sizes.len()],
            chains: Vec::with_capacity(edges.len()),
            middle: vec![0.0; sizes.len()],
        };
        for node in (0..sizes.len()).filter(|&node| linked[node]) {
            sketch.layers[layer_of[node]].push(node);
        }
        for &(from, to) in edges {
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
            // Within a cycle's layer there is nothing to order by.
            if layer_of[from] > layer_of[to] {
                for pair in chain.windows(2) {
                    sketch.before[pair[0]].push(pair[1]);
                    sketch.after[pair[1]].push(pair[0]);
                }
            }
            sketch.chains.push(chain);
        }
        sketch
    }

    fn height(&self, item: Item) -> f64 {
        self.sizes.get(item).map_or(LANE, |size| size.height)
    }

    /// Orders each layer by the mean place of its neighbours, sweeping to and fro; few crossings remain.
    fn order(&mut self) {
        let mut rank = vec![0.0; self.before.len()];
        for sweep in 0..12 {
            let forth = sweep % 2 == 0;
            for step in 0..self.layers.len() {
                let index = if forth { step } else { self.layers.len() - 1 - step };
                let mut layer = std::mem::take(&mut self.layers[index]);
                let neighbours = if forth { &self.before } else { &self.after };
                let key = |item: &Item| {
                    let near = &neighbours[*item];
                    if near.is_empty() {
                        rank[*item]
                    } else {
                        near.iter().map(|n| rank[*n]).sum::<f64>() / near.len() as f64
                    }
                };
                layer.sort_by(|a, b| key(a).total_cmp(&key(b)));
                // Ranks are places between 0 and 1, so that layers of different length can be compared.
                let scale = 1.0 / layer.len().max(1) as f64;
                for (place, item) in layer.iter().enumerate() {
                    rank[*item] = (place as f64 + 0.5) * scale;
                }
                self.layers[index] = layer;
            }
        }
    }

    /// Moves items up and down, keeping their order, towards the mean of their neighbours.
    fn align(&mut self) {
        for index in 0..self.layers.len() {
            let layer = self.layers[index].clone();
            self.place(&layer, &vec![0.0; layer.len()]);
        }
        for sweep in 0..16 {
            let forth = sweep % 2 == 0;
            for step in 0..self.layers.len() {
                let index = if forth { step } else { self.layers.len() - 1 - step };
                let layer = self.layers[index].clone();
                let wanted: Vec<f64> = layer
                    .iter()
                    .map(|&item| {
                        let near = match sweep {
                            // At the end both sides count.
                            14.. => [self.before[item].as_slice(), self.after[item].as_slice()].concat(),
                            _ if forth => self.before[item].clone(),
                            _ => self.after[item].clone(),
                        };
                        if near.is_empty() {
                            self.middle[item]
                        } else {
                            near.iter().map(|n| self.middle[*n]).sum::<f64>() / near.len() as f64
                        }
                    })
                    .collect();
                self.place(&layer, &wanted);
            }
        }
    }

    /// Gives the items of a layer the middles that are nearest to the wanted ones (least squares) without overlap.
    fn place(&mut self, layer: &[Item], wanted: &[f64]) {
        // With the least distances taken away, "no overlap" is "never falling": pool what would fall.
        let mut offsets = Vec::with_capacity(layer.len());
        let mut offset = 0.0;
        for (place, &item) in layer.iter().enumerate() {
            if place > 0 {
                offset += (self.height(layer[place - 1]) + self.height(item)) / 2.0 + ROW_GAP;
            }
            offsets.push(offset);
        }
        let mut pools: Vec<(f64, usize)> = Vec::new();
        for (wish, offset) in wanted.iter().zip(&offsets) {
            let mut pool = (wish - offset, 1);
            while let Some(&(mean, count)) = pools.last() {
                if mean <= pool.0 {
                    break;
                }
                pools.pop();
                let sum = mean * count as f64 + pool.0 * pool.1 as f64;
                pool = (sum / (count + pool.1) as f64, count + pool.1);
            }
            pools.push(pool);
        }
        let means = pools.iter().flat_map(|&(mean, count)| std::iter::repeat_n(mean, count));
        for ((item, offset), mean) in layer.iter().zip(&offsets).zip(means) {
            self.middle[*item] = mean + offset;
        }
    }

    /// Turns order and heights into places, ends of edges spread over the sides of their boxes, and the grid.
    fn finish(self, edges: &[(usize, usize)], linked: &[bool]) -> Layout {
        let top = self
            .layers
            .iter()
            .flatten()
            .map(|&item| self.middle[item] - self.height(item) / 2.0)
            .fold(f64::INFINITY, f64::min);
        let shift = if top.is_finite() { MARGIN - top } else { 0.0 };
        let mut layout = Layout {
            places: vec![Place { x: 0.0, y: 0.0, width: 0.0, height: 0.0 }; self.sizes.len()],
            ..Layout::default()
        };
        let mut left = vec![0.0; self.before.len()];
        let mut right = left.clone();
        let mut x = MARGIN;
        let mut bottom = MARGIN;
        for layer in &self.layers {
            let column =
                layer.iter().filter_map(|&item| self.sizes.get(item)).map(|s| s.width).fold(0.0, f64::max);
            for &item in layer {
                let y = self.middle[item] + shift;
                let width = self.sizes.get(item).map_or(column, |size| size.width);
                // Boxes stand flush left: what they wait for comes in there.
                (left[item], right[item]) = (x, x + width);
                bottom = f64::max(bottom, y + self.height(item) / 2.0);
                if let Some(place) = layout.places.get_mut(item) {
                    *place = Place { x, y: y - self.height(item) / 2.0, width, height: self.height(item) };
                }
            }
            x += column + COLUMN_GAP;
        }
        layout.width = if top.is_finite() { x - COLUMN_GAP + MARGIN } else { 2.0 * MARGIN };
        layout.routes = self.routes(edges, &left, &right, shift);
        self.grid(linked, &mut layout, if top.is_finite() { bottom + MARGIN } else { MARGIN });
        layout.height = layout.places.iter().map(|p| p.y + p.height).fold(bottom, f64::max) + MARGIN;
        layout
    }

    fn routes(
        &self,
        edges: &[(usize, usize)],
        left: &[f64],
        right: &[f64],
        shift: f64,
    ) -> Vec<Vec<(f64, f64)>> {
        // At each side of a box the edges leave in the order of where they lead.
        let port = |node: usize, own: usize, at_left: bool| {
            let mut ends: Vec<(f64, usize)> = edges
                .iter()
                .enumerate()
                .filter(|(_, (from, to))| if at_left { *from == node } else { *to == node })
                .map(|(edge, _)| {
                    let chain = &self.chains[edge];
                    let next = if at_left { chain[1] } else { chain[chain.len() - 2] };
                    (self.middle[next], edge)
                })
                .collect();
            ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let place = ends.iter().position(|(_, edge)| *edge == own).unwrap_or(0);
            let usable = self.height(node) * 0.6;
            let share = (place as f64 + 0.5) / ends.len().max(1) as f64;
            self.middle[node] + shift + (share - 0.5) * usable
        };
        self.chains
            .iter()
            .enumerate()
            .map(|(edge, chain)| {
                let (from, to) = edges[edge];
                let mut route = vec![(left[from], port(from, edge, true))];
                for &waypoint in &chain[1..chain.len() - 1] {
                    let y = self.middle[waypoint] + shift;
                    route.extend([(right[waypoint], y), (left[waypoint], y)]);
                }
                route.push((right[to], port(to, edge, false)));
                route
            })
            .collect()
    }

    /// The nodes without edges, in rows from `top` on.
    fn grid(&self, linked: &[bool], layout: &mut Layout, top: f64) {
        let loose: Vec<usize> = (0..self.sizes.len()).filter(|&node| !linked[node]).collect();
        let column = loose.iter().map(|&node| self.sizes[node].width).fold(1.0, f64::max) + ROW_GAP;
        let room = GRID_WIDTH.max(layout.width - 2.0 * MARGIN);
        let columns = ((room / column).floor().max(1.0)) as usize;
        for (index, &node) in loose.iter().enumerate() {
            let size = self.sizes[node];
            let x = MARGIN + column * (index % columns) as f64;
            let y = top + (size.height + ROW_GAP) * (index / columns) as f64;
            layout.places[node] = Place { x, y, width: size.width, height: size.height };
            layout.width = layout.width.max(x + size.width + MARGIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(count: usize) -> Vec<Size> {
        (0..count).map(|n| Size { width: 60.0 + (n % 5) as f64 * 17.0, height: 30.0 }).collect()
    }

    fn overlap(a: &Place, b: &Place) -> bool {
        a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
    }

    fn assert_sound(sizes: &[Size], edges: &[(usize, usize)]) -> Layout {
        let layout = layout(sizes, edges);
        for (i, a) in layout.places.iter().enumerate() {
            assert!(a.x >= 0.0 && a.y >= 0.0, "{i} is inside: {a:?}");
            assert!(a.x + a.width <= layout.width && a.y + a.height <= layout.height, "{i} is inside: {a:?}");
            for (j, b) in layout.places.iter().enumerate().skip(i + 1) {
                assert!(!overlap(a, b), "{i} {a:?} and {j} {b:?} overlap");
            }
        }
        assert_eq!(layout.routes.len(), edges.len());
        layout
    }

    #[test]
    fn what_is_waited_for_stands_left() {
        // 3 waits for 1 and 2, which wait for 0; 3 waits for 0 as well.
        let edges = [(3, 1), (3, 2), (1, 0), (2, 0), (3, 0)];
        let layout = assert_sound(&sizes(4), &edges);
        for (&(from, to), route) in edges.iter().zip(&layout.routes) {
            let (from, to) = (layout.places[from], layout.places[to]);
            assert!(to.x + to.width < from.x);
            let (start, end) = (route[0], route[route.len() - 1]);
            assert_eq!(start.0, from.x, "an edge begins at the left side of what waits");
            assert!(start.1 > from.y && start.1 < from.y + from.height);
            assert_eq!(end.0, to.x + to.width, "and ends at the right side of what is waited for");
            assert!(end.1 > to.y && end.1 < to.y + to.height);
        }
        assert_eq!(layout.routes[4].len(), 4, "the long edge passes the middle layer by a waypoint");
    }

    #[test]
    fn two_chains_do_not_cross() {
        // Given crosswise: 0 ← 2 ← 5 and 1 ← 3 ← 4.
        let layout = assert_sound(&sizes(6), &[(2, 0), (3, 1), (5, 2), (4, 3)]);
        let y = |node: usize| layout.places[node].y;
        assert_eq!(y(0) < y(1), y(2) < y(3));
        assert_eq!(y(2) < y(3), y(5) < y(4));
        assert!((y(0) - y(2)).abs() < 0.01 && (y(2) - y(5)).abs() < 0.01, "a chain is a straight line");
    }

    #[test]
    fn nothing_overlaps_in_a_large_graph() {
        let mut edges = Vec::new();
        for node in 1usize..120 {
            edges.push((node, node * 7 % node));
            if node % 3 == 0 {
                edges.push((node, node / 2));
            }
        }
        assert_sound(&sizes(150), &edges);
    }

    #[test]
    fn a_thousand_without_edges_make_a_grid() {
        let layout = assert_sound(&sizes(1000), &[]);
        assert!(layout.width < 1300.0, "{}", layout.width);
    }

    #[test]
    fn a_chain_of_two_hundred_and_an_empty_graph() {
        let edges: Vec<_> = (1..200).map(|node| (node, node - 1)).collect();
        assert_sound(&sizes(200), &edges);
        let layout = assert_sound(&[], &[]);
        assert!(layout.width > 0.0 && layout.height > 0.0);
    }

    #[test]
    fn a_cycle_is_drawn_all_the_same() {
        assert_sound(&sizes(4), &[(0, 1), (1, 2), (2, 0), (0, 3)]);
        assert_sound(&sizes(1), &[(0, 0)]);
    }
}
