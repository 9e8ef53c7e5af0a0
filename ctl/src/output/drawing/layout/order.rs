//! The order within each layer, with few crossings of edges.

use super::sketch::{Item, Sketch};

/// How often all layers are gone through.
const SWEEPS: usize = 24;

/// Orders each layer by the mean place of its neighbours, sweeping to and fro, then changes places of two that stand side by side
/// where that helps. The best that was seen is kept.
pub fn order(sketch: &mut Sketch) {
    let mut rank = vec![0.0; sketch.before.len()];
    sketch.layers.iter().for_each(|layer| number(layer, &mut rank));
    let mut best = (crossings(sketch, &rank), sketch.layers.clone());
    for sweep in 0..SWEEPS {
        if best.0 == 0 {
            break;
        }
        let forth = sweep % 2 == 0;
        for step in 0..sketch.layers.len() {
            let index = if forth { step } else { sketch.layers.len() - 1 - step };
            let mut layer = std::mem::take(&mut sketch.layers[index]);
            let neighbours = if forth { &sketch.before } else { &sketch.after };
            let key = |item: &Item| {
                let near = &neighbours[*item];
                let sum: f64 = near.iter().map(|n| rank[*n]).sum();
                if near.is_empty() { rank[*item] } else { sum / near.len() as f64 }
            };
            let mut keyed: Vec<(f64, Item)> = layer.iter().map(|item| (key(item), *item)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            layer = keyed.into_iter().map(|(_, item)| item).collect();
            number(&layer, &mut rank);
            sketch.layers[index] = layer;
        }
        exchange(sketch, &mut rank);
        let found = crossings(sketch, &rank);
        if found < best.0 {
            best = (found, sketch.layers.clone());
        }
    }
    sketch.layers = best.1;
}

/// Ranks are places between 0 and 1, so that layers of different length can be compared.
fn number(layer: &[Item], rank: &mut [f64]) {
    for (place, item) in layer.iter().enumerate() {
        rank[*item] = (place as f64 + 0.5) / layer.len() as f64;
    }
}

/// Changes places of two that stand side by side, as long as that takes crossings away.
fn exchange(sketch: &mut Sketch, rank: &mut [f64]) {
    for _ in 0..4 {
        let mut changed = false;
        for layer in &mut sketch.layers {
            for place in 1..layer.len() {
                let (upper, lower) = (layer[place - 1], layer[place]);
                let crossed = |above: Item, below: Item| -> usize {
                    [&sketch.before, &sketch.after]
                        .into_iter()
                        .map(|near| {
                            let pairs =
                                near[above].iter().flat_map(|a| near[below].iter().map(move |b| (a, b)));
                            pairs.filter(|(a, b)| rank[**a] > rank[**b]).count()
                        })
                        .sum()
                };
                if crossed(lower, upper) < crossed(upper, lower) {
                    layer.swap(place - 1, place);
                    (rank[upper], rank[lower]) = (rank[lower], rank[upper]);
                    changed = true;
                }
            }
        }
        if !changed {
            return;
        }
    }
}

/// How many pairs of edges cross between each two layers.
fn crossings(sketch: &Sketch, rank: &[f64]) -> usize {
    let mut count = 0;
    for layer in &sketch.layers {
        let mut ends: Vec<f64> = Vec::new();
        for &item in layer {
            let mut near: Vec<f64> = sketch.before[item].iter().map(|n| rank[*n]).collect();
            near.sort_by(f64::total_cmp);
            // Those of the same item do not cross each other.
            count += near.iter().map(|end| ends.len() - ends.partition_point(|e| e <= end)).sum::<usize>();
            for end in near {
                ends.insert(ends.partition_point(|e| *e <= end), end);
            }
        }
    }
    count
}
