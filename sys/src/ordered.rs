//! Sorting, and collections in order, with one copy of std's sort.
//!
//! std compiles its sort for each type of element, 2 to 3 kB each time, and `collect` into a map or a set of `BTree` sorts,
//! too. These functions sort the places of the elements, which are always of one type, and then move the elements.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;

/// As [`slice::sort`].
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// As [`slice::sort_by_key`].
pub fn sort_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// As [`slice::sort_by`]: what compares as equal keeps its order.
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut sources = sources(items.len(), &mut |one, other| match (items.get(one), items.get(other)) {
        (Some(one), Some(other)) => compare(one, other),
        _ => Ordering::Equal,
    });
    // Each cycle of the permutation in turn: the first element of the cycle moves along with `place` until it is at home.
    for start in 0..items.len() {
        let mut place = start;
        while let Some(source) = sources.get_mut(place).map(|source| mem::replace(source, place))
            && source != start
            && source != place
        {
            items.swap(place, source);
            place = source;
        }
    }
}

/// For each place, which element belongs there.
#[inline(never)]
fn sources(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut sources: Vec<usize> = (0..count).collect();
    sources.sort_by(|one, other| compare(*one, *other));
    sources
}

/// As `collect`: of two entries with one key the later one stays.
pub fn map<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in entries {
        map.insert(key, value);
    }
    map
}

/// As `collect`.
pub fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    for item in items {
        set.insert(item);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_std() {
        // A linear congruential generator, as in the C library.
        let mut state = 1_u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            (state >> 16) % below
        };
        for length in 0..200 {
            let items: Vec<(u32, usize)> = (0..length).map(|place| (next(20), place)).collect();
            let (mut ours, mut expected) = (items.clone(), items.clone());
            sort_by_key(&mut ours, |(key, _)| *key);
            expected.sort_by_key(|(key, _)| *key);
            assert_eq!(ours, expected, "{items:?}");
            sort_by(&mut ours, |one, other| other.cmp(one));
            expected.sort_by(|one, other| other.cmp(one));
            assert_eq!(ours, expected);
            sort(&mut ours);
            expected.sort();
            assert_eq!(ours, expected);
            assert_eq!(map(items.clone()), items.iter().copied().collect());
            assert_eq!(set(items.clone()), items.into_iter().collect());
        }
    }
}
