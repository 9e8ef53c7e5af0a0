//! Which parts the graph falls into, which edges are turned round, and the layer of each node.

/// For each node the first node of the part that it belongs to.
pub fn parts(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut near = vec![Vec::new(); count];
    for &(from, to) in edges {
        near[from].push(to);
        near[to].push(from);
    }
    let mut part = vec![usize::MAX; count];
    for first in 0..count {
        let mut open = vec![first];
        while let Some(node) = open.pop() {
            if part[node] == usize::MAX {
                part[node] = first;
                open.extend(&near[node]);
            }
        }
    }
    part
}

/// For each edge: whether it closes a cycle, and so has to be reversed before layers exist.
pub fn turned(count: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnTheWay,
        Done,
    }
    let mut leaving = vec![Vec::new(); count];
    for (edge, &(from, _)) in edges.iter().enumerate() {
        leaving[from].push(edge);
    }
    let mut turned = vec![false; edges.len()];
    let mut seen = vec![Seen::No; count];
    // Whom nobody waits for comes first, so that of a cycle the edge back to its beginning is turned.
    let mut waited_for = vec![false; count];
    edges.iter().for_each(|&(_, to)| waited_for[to] = true);
    let (tops, others): (Vec<usize>, Vec<usize>) = (0..count).partition(|&node| !waited_for[node]);
    for first in tops.into_iter().chain(others) {
        if seen[first] != Seen::No {
            continue;
        }
        // Not by recursion: a chain may be as long as there are services.
        seen[first] = Seen::OnTheWay;
        let mut way = vec![(first, 0)];
        while let Some((node, next)) = way.last_mut() {
            let Some(&edge) = leaving[*node].get(*next) else {
                seen[*node] = Seen::Done;
                way.pop();
                continue;
            };
            *next += 1;
            let to = edges[edge].1;
            match seen[to] {
                Seen::OnTheWay => turned[edge] = true,
                Seen::No => {
                    seen[to] = Seen::OnTheWay;
                    way.push((to, 0));
                }
                Seen::Done => {}
            }
        }
    }
    turned
}

/// The layer of each node: one more than the largest of those it waits for; who waits for nothing stands next to the
/// first that waits for it. The edges have no cycle, but for those from a node to itself.
pub fn layers(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut open = vec![0usize; count];
    let mut waiters = vec![Vec::new(); count];
    for &(from, to) in edges.iter().filter(|(from, to)| from != to) {
        open[from] += 1;
        waiters[to].push(from);
    }
    let mut layer = vec![0; count];
    let mut ready: Vec<usize> = (0..count).filter(|&node| open[node] == 0).collect();
    let starts = ready.clone();
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
    for node in starts {
        if let Some(first) = waiters[node].iter().map(|&waiter| layer[waiter]).min() {
            layer[node] = first - 1;
        }
    }
    layer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_of_each_cycle_is_turned() {
        assert_eq!(turned(4, &[(0, 1), (1, 2), (2, 0), (0, 3)]), [false, false, true, false]);
        assert_eq!(turned(2, &[(0, 1), (1, 0)]), [false, true]);
        assert_eq!(turned(1, &[(0, 0)]), [true]);
        assert_eq!(
            turned(3, &[(1, 2), (2, 1), (0, 1)]),
            [false, true, false],
            "seen from whom nobody waits for"
        );
    }

    #[test]
    fn who_waits_for_nothing_stands_near() {
        // 2 waits for 1, 1 for 0; 3 is only waited for by 2.
        assert_eq!(layers(4, &[(2, 1), (1, 0), (2, 3)]), [0, 1, 2, 1]);
    }

    #[test]
    fn parts_hang_together() {
        assert_eq!(parts(5, &[(3, 0), (1, 4)]), [0, 1, 2, 0, 1]);
    }
}
