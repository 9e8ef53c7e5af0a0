//! "Did you mean …": the name that was most likely meant.

/// The candidate that is nearest to `name`, where one is near enough to be meant.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong; a start of the name that is common to no other comes after that.
    let allowed = name.len().div_ceil(3).min(3);
    candidates
        .filter_map(|candidate| {
            let distance = distance(name, candidate);
            let begun = name.len() >= 3 && candidate.starts_with(name);
            (distance <= allowed || begun).then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters must be put in, left out or changed (Levenshtein), by bytes: names are ASCII.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i.saturating_add(1);
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let changed = diagonal.saturating_add(usize::from(x != y));
            diagonal = *cell;
            left = changed.min(left.saturating_add(1)).min(diagonal.saturating_add(1));
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("web", "web", 0),
            ("web", "wed", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn what_is_near_is_proposed_and_nothing_else() {
        let names = ["containerd", "db", "nginx", "web"];
        let near = |name| nearest(name, names.into_iter());
        assert_eq!(near("ngnix"), Some("nginx"));
        assert_eq!(near("wbe"), None);
        assert_eq!(near("wen"), Some("web"));
        assert_eq!(near("cont"), Some("containerd"));
        assert_eq!(near("zzzzzz"), None);
    }
}
