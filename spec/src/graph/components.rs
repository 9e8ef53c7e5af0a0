//! Strongly connected components: the groups of nodes that reach each other.

/// The strongly connected component of each node, by Tarjan's way with a stack of its own.
pub fn components(nodes: usize, next: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let mut component = vec![NONE; nodes];
    let mut order = vec![NONE; nodes];
    let mut low = vec![NONE; nodes];
    let mut count = 0_usize;
    let mut waiting: Vec<usize> = Vec::new();
    let get = |list: &[usize], place: usize| list.get(place).copied().unwrap_or(NONE);
    let put = |list: &mut [usize], place: usize, value: usize| {
        if let Some(slot) = list.get_mut(place) {
            *slot = value;
        }
    };
    for root in 0..nodes {
        if get(&order, root) != NONE {
            continue;
        }
        let mut path: Vec<(usize, std::vec::IntoIter<usize>)> = Vec::new();
        let mut enter = Some(root);
        loop {
            if let Some(node) = enter.take() {
                put(&mut order, node, count);
                put(&mut low, node, count);
                count = count.saturating_add(1);
                waiting.push(node);
                path.push((node, next(node).into_iter()));
            }
            let Some((node, rest)) = path.last_mut() else { break };
            let node = *node;
            match rest.next() {
                Some(to) if get(&order, to) == NONE => enter = Some(to),
                Some(to) if get(&component, to) == NONE => {
                    let least = get(&low, node).min(get(&order, to));
                    put(&mut low, node, least);
                }
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((parent, _)) = path.last() {
                        let least = get(&low, *parent).min(get(&low, node));
                        put(&mut low, *parent, least);
                    }
                    if get(&low, node) == get(&order, node) {
                        while let Some(member) = waiting.pop() {
                            put(&mut component, member, node);
                            if member == node {
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_of_a_known_graph() {
        let edges = [vec![1], vec![2, 3], vec![0], vec![4], vec![5, 4], vec![4], vec![]];
        let found = components(edges.len(), |node| edges[node].clone());
        let same = |a: usize, b: usize| found[a] == found[b];
        assert!(same(0, 1) && same(1, 2) && same(4, 5));
        assert!(!same(0, 3) && !same(3, 4) && !same(6, 0) && !same(6, 4));
    }

    #[test]
    fn a_long_row_needs_no_stack() {
        let found = components(100_000, |node| vec![(node + 1) % 100_000]);
        assert!(found.iter().all(|component| *component == found[0]));
    }
}
