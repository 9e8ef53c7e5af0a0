//! Indented trees: a line for each thing, below it what it rests on.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Deeper than this the rails go on as they are: a host decides how deep its trees are.
const DEEPEST: usize = 40;

/// One line and what stands below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Already painted and safe to show.
    pub line: String,
    pub below: Vec<Branch>,
}

/// The tree as lines. Drawn with ASCII alone where `unicode` is false.
pub fn render(root: &Branch, unicode: bool) -> String {
    let mut rows = Vec::new();
    let mut open = vec![(0, root)];
    while let Some((depth, branch)) = open.pop() {
        rows.push((depth, branch.line.as_str()));
        open.extend(branch.below.iter().rev().map(|below| (depth + 1, below)));
    }
    render_rows(&rows, unicode)
}

/// The lines of a tree, each with its depth and followed by those below it.
pub fn render_rows<L: AsRef<str>>(rows: &[(usize, L)], unicode: bool) -> String {
    // From the last line on: at which depths another line follows, of the same parent.
    let mut follows: Vec<bool> = Vec::new();
    let mut lines: Vec<String> = Vec::with_capacity(rows.len());
    for (depth, line) in rows.iter().rev() {
        follows.resize(depth + 1, false);
        let above = follows.iter().take(*depth).skip(1).take(DEEPEST);
        let mut shown: String = above.map(|follows| rails(unicode, !follows).1).collect();
        if *depth > 0 {
            shown.push_str(rails(unicode, !follows[*depth]).0);
        }
        lines.push(shown + line.as_ref() + "\n");
        follows[*depth] = true;
    }
    lines.into_iter().rev().collect()
}

/// Things in the order of their tree, each with the rails that stand in front of it. An entry that names
/// itself or an unknown parent stands at the top, and so does one of a circle. `hung`: what is at the top
/// hangs below a heading.
pub fn forest<T, K: Eq + Hash>(
    things: &[T],
    id: impl Fn(&T) -> K,
    parent: impl Fn(&T) -> K,
    hung: bool,
    unicode: bool,
) -> Vec<(String, &T)> {
    let known: HashSet<K> = things.iter().map(&id).collect();
    let mut below: HashMap<K, Vec<usize>> = HashMap::new();
    let mut tops = Vec::new();
    for (place, thing) in things.iter().enumerate() {
        let parent = parent(thing);
        if parent == id(thing) || !known.contains(&parent) {
            tops.push(place);
        } else {
            below.entry(parent).or_default().push(place);
        }
    }
    let (mut rows, mut shown) = (Vec::new(), HashSet::new());
    // An entry that no top leads to is in a circle, or behind one.
    for round in [tops, (0..things.len()).collect()] {
        let last = round.len();
        for (number, place) in round.into_iter().enumerate() {
            let mut waiting = vec![(place, String::new(), 0, number + 1 == last)];
            while let Some((place, indent, depth, last)) = waiting.pop() {
                let Some(thing) = things.get(place).filter(|_| shown.insert(place)) else { continue };
                let (knot, rail) = if depth == 0 && !hung { ("", "") } else { rails(unicode, last) };
                rows.push((format!("{indent}{knot}"), thing));
                let under = if depth < DEEPEST { format!("{indent}{rail}") } else { indent };
                let children = below.remove(&id(thing)).unwrap_or_default();
                let youngest = children.len();
                let children = children.into_iter().enumerate().rev();
                waiting.extend(
                    children.map(|(number, child)| (child, under.clone(), depth + 1, number + 1 == youngest)),
                );
            }
        }
    }
    rows
}

/// The line that leads to an entry, and the one that passes it on the way to those below it.
fn rails(unicode: bool, last: bool) -> (&'static str, &'static str) {
    match (unicode, last) {
        (true, false) => ("├─ ", "│  "),
        (true, true) => ("└─ ", "   "),
        (false, false) => ("|- ", "|  "),
        (false, true) => ("`- ", "   "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(line: &str) -> Branch {
        Branch { line: line.to_owned(), below: Vec::new() }
    }

    #[test]
    fn rails_lead_to_the_last_knot() {
        let root = Branch {
            line: "a".to_owned(),
            below: vec![
                Branch { line: "b".to_owned(), below: vec![leaf("c"), leaf("d")] },
                Branch { line: "e".to_owned(), below: vec![leaf("f")] },
            ],
        };
        assert_eq!(render(&root, true), "a\n├─ b\n│  ├─ c\n│  └─ d\n└─ e\n   └─ f\n");
        assert_eq!(render(&root, false), "a\n|- b\n|  |- c\n|  `- d\n`- e\n   `- f\n");
    }

    #[test]
    fn a_deep_tree_is_no_wider_than_its_rails() {
        let rows: Vec<(usize, String)> = (0..10_000).map(|n| (n, n.to_string())).collect();
        let text = render_rows(&rows, false);
        let last = text.lines().last().unwrap();
        assert_eq!((text.lines().count(), last), (10_000, &*format!("{}`- 9999", "   ".repeat(DEEPEST))));
    }

    /// Pairs of a thing and its parent.
    fn shown(pairs: &[(u32, u32)], hung: bool) -> Vec<String> {
        let rows = forest(pairs, |pair| pair.0, |pair| pair.1, hung, true);
        rows.into_iter().map(|(rails, (thing, _))| format!("{rails}{thing}")).collect()
    }

    #[test]
    fn children_stand_below_their_parents() {
        let pairs = [(1, 0), (5, 3), (2, 1), (3, 1), (4, 2), (9, 9)];
        assert_eq!(shown(&pairs, false), ["1", "├─ 2", "│  └─ 4", "└─ 3", "   └─ 5", "9"]);
        assert_eq!(shown(&pairs[3..], true), ["├─ 3", "├─ 4", "└─ 9"]);
    }

    #[test]
    fn a_circle_and_a_well_without_a_bottom_are_told_as_well() {
        assert_eq!(shown(&[(1, 2), (2, 1), (7, 0), (1, 2)], false), ["7", "1", "└─ 2", "   └─ 1"]);
        let chain: Vec<(u32, u32)> = (1..5000).map(|number| (number, number - 1)).collect();
        let rows = shown(&chain, false);
        assert_eq!(rows.len(), 4999);
        assert!(rows.iter().all(|row| row.chars().count() < 3 * (DEEPEST + 3)));
    }
}
