//! A covering array: few rows in which each pair of levels of two dimensions comes together that may.

use std::collections::BTreeSet;

/// A level of each dimension.
pub type Row = Vec<usize>;

/// A dimension and one of its levels.
type Level = (usize, usize);
type Pair = (Level, Level);

/// The rows for dimensions with these numbers of levels, and the pairs that they cover: all but those that
/// clash.
///
/// # Panics
/// When there is a pair that no row can hold.
pub fn cover(sizes: &[usize], clash: impl Fn(Level, Level) -> bool) -> (Vec<Row>, usize) {
    let mut missing: BTreeSet<Pair> = BTreeSet::new();
    for (low, levels) in sizes.iter().enumerate() {
        for (high, others) in sizes.iter().enumerate().skip(low + 1) {
            let pairs =
                (0..*levels).flat_map(|one| (0..*others).map(move |other| ((low, one), (high, other))));
            missing.extend(pairs.filter(|(one, other)| !clash(*one, *other) && !clash(*other, *one)));
        }
    }
    let count = missing.len();
    let mut rows: Vec<Row> = Vec::new();
    while let Some((one, other)) = missing.first().copied() {
        let mut chosen = vec![one, other];
        for (dimension, levels) in sizes.iter().enumerate() {
            if chosen.iter().any(|(taken, _)| *taken == dimension) {
                continue;
            }
            let fits = |level: &usize| {
                let level = (dimension, *level);
                chosen.iter().all(|taken| !clash(*taken, level) && !clash(level, *taken))
            };
            let gain = |level: usize| {
                chosen.iter().filter(|taken| missing.contains(&pair(**taken, (dimension, level)))).count()
            };
            // Of those that cover as much, another in each row.
            let turned = (0..*levels).map(|level| (level + rows.len()) % levels).filter(fits);
            let best = turned.max_by_key(|level| gain(*level));
            chosen.push((dimension, best.unwrap_or_else(|| panic!("no row holds {chosen:?}"))));
        }
        chosen.sort_unstable();
        for (at, one) in chosen.iter().enumerate() {
            chosen[at + 1..].iter().for_each(|other| {
                missing.remove(&pair(*one, *other));
            });
        }
        rows.push(chosen.into_iter().map(|(_, level)| level).collect());
    }
    (rows, count)
}

fn pair(one: Level, other: Level) -> Pair {
    (one.min(other), one.max(other))
}
