//! A graph while it is laid out.

/// A box to be placed.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub width: f64,
    pub height: f64,
}

/// A node, or (above the nodes' number) a waypoint of an edge.
pub type Item = usize;

/// A part of the graph while it is laid out: nodes and waypoints in layers.
pub struct Sketch<'a> {
    pub sizes: &'a [Size],
    pub edges: &'a [(usize, usize)],
    pub layers: Vec<Vec<Item>>,
    /// For each item: its neighbours in the layer before and in the one after.
    pub before: Vec<Vec<Item>>,
    pub after: Vec<Vec<Item>>,
    /// For each edge: its items from the later layer to the earlier one. Empty: it leads from a node to itself.
    pub chains: Vec<Vec<Item>>,
    /// The middle of each item.
    pub middle: Vec<f64>,
}
