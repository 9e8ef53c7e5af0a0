//! The height of each item, so that edges are straight where they can be.

use super::sketch::{Item, Sketch};

/// The height that an edge takes as it passes through a layer.
pub const LANE: f64 = 4.0;
/// Between two items of a layer.
const ROW_GAP: f64 = 16.0;
/// Between two edges that pass.
const LANE_GAP: f64 = 8.0;
/// How much more a waypoint insists on its height than a box: a long edge with bends is hard to follow.
const STRAIGHT: f64 = 4.0;
/// How often all layers are gone through.
const SWEEPS: usize = 32;

/// Moves items up and down, keeping their order, towards the mean of their neighbours.
pub fn heights(sketch: &mut Sketch) {
    for index in 0..sketch.layers.len() {
        let layer = sketch.layers[index].clone();
        place(sketch, &layer, &vec![0.0; layer.len()]);
    }
    for sweep in 0..SWEEPS {
        let forth = sweep % 2 == 0;
        for step in 0..sketch.layers.len() {
            let index = if forth { step } else { sketch.layers.len() - 1 - step };
            let layer = sketch.layers[index].clone();
            let wanted: Vec<f64> = layer.iter().map(|&item| wish(sketch, item, sweep, forth)).collect();
            place(sketch, &layer, &wanted);
        }
    }
}

/// Where an item would stand if there were no others.
fn wish(sketch: &Sketch, item: Item, sweep: usize, forth: bool) -> f64 {
    let (before, after) = (sketch.before[item].iter(), sketch.after[item].iter());
    // In the second half both sides count.
    let near: Vec<Item> = match (sweep < SWEEPS / 2, forth) {
        (true, true) => before.copied().collect(),
        (true, false) => after.copied().collect(),
        (false, _) => before.chain(after).copied().collect(),
    };
    let weight = |other: Item| {
        if sketch.is_waypoint(item) && sketch.is_waypoint(other) { STRAIGHT } else { 1.0 }
    };
    let all: f64 = near.iter().map(|&other| weight(other)).sum();
    if near.is_empty() {
        return sketch.middle[item];
    }
    near.iter().map(|&other| sketch.middle[other] * weight(other)).sum::<f64>() / all
}

/// Gives the items of a layer the middles that are nearest to the wanted ones (least squares) without overlap.
fn place(sketch: &mut Sketch, layer: &[Item], wanted: &[f64]) {
    // With the least distances taken away, "no overlap" is "never falling": pool what would fall.
    let mut offsets = Vec::with_capacity(layer.len());
    let mut offset = 0.0;
    for (place, &item) in layer.iter().enumerate() {
        if let Some(&last) = place.checked_sub(1).and_then(|last| layer.get(last)) {
            let lanes = sketch.is_waypoint(item) && sketch.is_waypoint(last);
            let gap = if lanes { LANE_GAP } else { ROW_GAP };
            offset += (sketch.height(last) + sketch.height(item)) / 2.0 + gap;
        }
        offsets.push(offset);
    }
    struct Pool {
        mean: f64,
        weight: f64,
        count: usize,
    }
    let mut pools: Vec<Pool> = Vec::new();
    for ((wish, offset), item) in wanted.iter().zip(&offsets).zip(layer) {
        let weight = if sketch.is_waypoint(*item) { STRAIGHT } else { 1.0 };
        let mut pool = Pool { mean: wish - offset, weight, count: 1 };
        while let Some(last) = pools.pop_if(|last| last.mean > pool.mean) {
            let weight = last.weight + pool.weight;
            let mean = (last.mean * last.weight + pool.mean * pool.weight) / weight;
            pool = Pool { mean, weight, count: last.count + pool.count };
        }
        pools.push(pool);
    }
    let means = pools.iter().flat_map(|pool| std::iter::repeat_n(pool.mean, pool.count));
    for ((item, offset), mean) in layer.iter().zip(&offsets).zip(means) {
        sketch.middle[*item] = mean + offset;
    }
}
