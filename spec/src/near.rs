//! "Did you mean": the known word that is nearest to one that is not known.

/// Words longer than this are not compared.
const LONGEST: usize = 64;

/// The word of `known` that `found` was most likely meant to be, if one is near enough.
///
/// Capitals, `_` and `-` do not count: `memory_max` is as near to `memoryMax` as can be. Up to a third of the letters may differ.
pub fn near<'k>(found: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let found = folded(found);
    if found.is_empty() || found.len() > LONGEST {
        return None;
    }
    let allowed = (found.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for word in known {
        let folded_word = folded(word);
        if folded_word.len().abs_diff(found.len()) > allowed || folded_word.len() > LONGEST {
            continue;
        }
        let distance = distance(&found, &folded_word);
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, word));
        }
    }
    best.map(|(_, word)| word)
}

fn folded(word: &str) -> Vec<char> {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// How many letters must be added, removed, changed or swapped with their neighbour to make one word of the other.
pub fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous_a = None;
    for (row, &x) in a.iter().enumerate() {
        let mut current = Vec::with_capacity(last.len());
        let mut left = row.saturating_add(1);
        current.push(left);
        let mut previous_b = None;
        for (column, &y) in b.iter().enumerate() {
            let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX);
            let next = column.saturating_add(1);
            let mut best = at(&last, next).saturating_add(1).min(left.saturating_add(1));
            best = best.min(at(&last, column).saturating_add(usize::from(x != y)));
            if let (Some(w), Some(z)) = (previous_a, previous_b)
                && w == y
                && z == x
            {
                best = best.min(at(&before, column.saturating_sub(1)).saturating_add(1));
            }
            current.push(best);
            left = best;
            previous_b = Some(y);
        }
        before = std::mem::replace(&mut last, current);
        previous_a = Some(x);
    }
    last.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_nearest_word() {
        let keys = ["delay", "maxDelay", "memoryMax", "policy", "up", "a"];
        assert_eq!(near("delai", keys), Some("delay"));
        assert_eq!(near("dealy", keys), Some("delay"));
        assert_eq!(near("memory_max", keys), Some("memoryMax"));
        assert_eq!(near("MEMORYMAX", keys), Some("memoryMax"));
        assert_eq!(near("max_delay", keys), Some("maxDelay"));
        assert_eq!(near("pu", keys), Some("up"));
        assert_eq!(near("environment", keys), None);
        assert_eq!(near("", keys), None);
        assert_eq!(near(&"x".repeat(100), keys), None);
    }

    #[test]
    fn distances_are_those_of_the_textbook() {
        let d = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(d("kitten", "sitting"), 3);
        assert_eq!(d("ab", "ba"), 1);
        assert_eq!(d("", "abc"), 3);
        assert_eq!(d("abc", ""), 3);
        assert_eq!(d("same", "same"), 0);
    }
}
