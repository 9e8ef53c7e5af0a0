//! Rules that every drawing of a graph must keep, on graphs of all shapes.

use super::*;

fn sizes(count: usize) -> Vec<Size> {
    (0..count)
        .map(|n| Size { width: 60.0 + (n % 5) as f64 * 17.0, height: 30.0 + (n % 3) as f64 * 14.0 })
        .collect()
}

fn overlap(a: &Place, b: &Place) -> bool {
    a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
}

/// True where the edge passes through the box. Between two points it stays within the rectangle of both.
fn runs_through(route: &Route, place: &Place) -> bool {
    route.windows(2).any(|pair| {
        let (a, b) = (pair[0], pair[1]);
        let part = Place {
            x: a.0.min(b.0) + 0.5,
            y: a.1.min(b.1),
            width: (a.0 - b.0).abs() - 1.0,
            height: (a.1 - b.1).abs().max(0.1),
        };
        overlap(&part, place)
    })
}

/// The layout, once it is known to be readable.
fn sound(count: usize, edges: &[(usize, usize)]) -> Layout {
    let layout = layout(&sizes(count), edges);
    for (i, a) in layout.places.iter().enumerate() {
        assert!(a.x >= MARGIN && a.y >= MARGIN - 0.01, "{i} is inside: {a:?}");
        assert!(
            a.x + a.width <= layout.width - MARGIN + 0.01 && a.y + a.height <= layout.height - MARGIN + 0.01,
            "{i} is inside: {a:?} of {} x {}",
            layout.width,
            layout.height
        );
        for (j, b) in layout.places.iter().enumerate().skip(i + 1) {
            assert!(!overlap(a, b), "{i} {a:?} and {j} {b:?} overlap");
        }
        for (edge, route) in layout.routes.iter().enumerate() {
            assert!(!runs_through(route, a), "edge {edge} runs through {i} {a:?}: {route:?}");
        }
    }
    assert_eq!(layout.routes.len(), edges.len());
    layout
}

#[test]
fn what_is_waited_for_stands_left() {
    // 3 waits for 1 and 2, which wait for 0; 3 waits for 0 as well.
    let edges = [(3, 1), (3, 2), (1, 0), (2, 0), (3, 0)];
    let layout = sound(4, &edges);
    for (&(from, to), route) in edges.iter().zip(&layout.routes) {
        let (from, to) = (layout.places[from], layout.places[to]);
        assert!(to.x + to.width < from.x);
        let (start, end) = (route[0], route[route.len() - 1]);
        assert_eq!(start.0, from.x, "an edge begins at the left side of what waits");
        assert_eq!(end.0, to.x + to.width, "and ends at the right side of what is waited for");
        assert!(
            start.1 > from.y && start.1 < from.y + from.height && end.1 > to.y && end.1 < to.y + to.height
        );
    }
}

#[test]
fn chains_are_straight_and_boxes_of_a_layer_equally_wide() {
    let layout = sound(7, &[(2, 1), (1, 0), (5, 4), (4, 3), (6, 3)]);
    let middle = |node: usize| layout.places[node].y + layout.places[node].height / 2.0;
    assert!((middle(2) - middle(1)).abs() < 0.01 && (middle(1) - middle(0)).abs() < 0.01);
    assert_eq!(layout.places[4].width, layout.places[6].width);
}

#[test]
fn few_edges_cross() {
    // A grid of pairs that is given crosswise, and can be drawn without a crossing.
    let pairs = (0..8usize).map(|n| (8 + n, 7 - n));
    let edges: Vec<_> = pairs.chain((8..16).map(|n| (16, n))).collect();
    let layout = sound(17, &edges);
    let rank = |node: usize| layout.places[node].y;
    for a in &edges[..8] {
        for b in &edges[..8] {
            assert!((rank(a.0) - rank(b.0)) * (rank(a.1) - rank(b.1)) >= 0.0, "{a:?} and {b:?} cross");
        }
    }
}

#[test]
fn nothing_overlaps_in_a_large_graph() {
    let mut edges = Vec::new();
    for node in 1usize..120 {
        edges.push((node, node * 7 % node));
        if node % 3 == 0 {
            edges.push((node, node / 2));
        }
    }
    sound(150, &edges);
}

#[test]
fn wide_fans() {
    let out: Vec<_> = (1..100).map(|node| (node, 0)).collect();
    let layout = sound(100, &out);
    assert_eq!(layout.places[1].x, layout.places[99].x);
    let both: Vec<_> = (1..99).flat_map(|node| [(node, 0), (99, node)]).collect();
    sound(100, &both);
}

#[test]
fn parts_stand_side_by_side() {
    let pairs: Vec<_> = (0..20).map(|n| (2 * n + 1, 2 * n)).collect();
    let layout = sound(45, &pairs);
    assert!(layout.width > 800.0 && layout.width < 1300.0, "{}", layout.width);
    assert!(layout.height < 800.0, "{}", layout.height);
}

#[test]
fn a_thousand_without_edges_make_a_grid() {
    let layout = sound(1000, &[]);
    assert!(layout.width < 1300.0, "{}", layout.width);
}

#[test]
fn a_chain_of_two_hundred_one_node_and_none() {
    let edges: Vec<_> = (1..200).map(|node| (node, node - 1)).collect();
    sound(200, &edges);
    sound(1, &[]);
    let layout = sound(0, &[]);
    assert!(layout.width > 0.0 && layout.height > 0.0);
}

#[test]
fn a_cycle_has_an_edge_that_leads_back() {
    let layout = sound(4, &[(0, 1), (1, 2), (2, 0), (0, 3)]);
    let back = &layout.routes[2];
    assert!(back[0].0 < back[back.len() - 1].0, "it leads to the right, unlike all others: {back:?}");
    assert!(layout.routes[0][0].0 > layout.routes[0][1].0);
    sound(1, &[(0, 0)]);
    sound(3, &[(0, 1), (1, 0), (1, 1), (2, 1), (2, 1)]);
}

#[test]
fn the_same_graph_is_drawn_the_same_way() {
    let edges: Vec<_> = (1usize..60).map(|node| (node, node * 13 % node)).collect();
    let (a, b) = (layout(&sizes(60), &edges), layout(&sizes(60), &edges));
    assert_eq!((a.places, a.routes), (b.places, b.routes));
}
