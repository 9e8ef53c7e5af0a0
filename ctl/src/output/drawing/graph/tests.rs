use super::super::check::{Element, elements, read};
use super::*;
use crate::samples::{edge, golden, node};

fn sample() -> (GraphResponse, Vec<Service>) {
    let mut waits = edge("web", "path \"/run/<x>\" to exist", "", false);
    waits.alternative = true;
    let graph = GraphResponse {
        nodes: vec![
            node("db", State::Running),
            node("logd", State::Running),
            node("migrate", State::Failed),
            node("web", State::Waiting),
            node("path \"/run/<x>\" to exist", State::Unspecified),
        ],
        edges: vec![
            edge("migrate", "db", "up", true),
            edge("web", "migrate", "finished", false),
            edge("web", "db", "up", true),
            waits,
            edge("web", "not in the graph", "up", false),
        ],
    };
    let service = |name: &str| Service { name: name.to_owned(), ..Service::default() };
    let services = vec![
        Service { builtin: true, ..service("logd") },
        Service { message: "exited with status 3".to_owned(), ..service("migrate") },
        Service {
            waiting_for: vec![
                "service \"migrate\" to have finished".to_owned(),
                "path \"/run/<x>\" to exist".to_owned(),
            ],
            ..service("web")
        },
    ];
    (graph, services)
}

/// Panics where two boxes overlap, a text is wider than its box, or anything lies outside of the drawing.
fn assert_readable(svg: &str) {
    let all = read(svg);
    let (width, height) = (all[0].number("width"), all[0].number("height"));
    let boxes: Vec<&Element> = all
        .iter()
        .filter(|e| e.name == "rect" && e.attribute("class").starts_with("box") && e.number("width") > 20.0)
        .collect();
    for (place, a) in boxes.iter().enumerate() {
        let side = |e: &Element, at: &str, size: &str| (e.number(at), e.number(at) + e.number(size));
        let (x, y) = (side(a, "x", "width"), side(a, "y", "height"));
        assert!(x.0 >= 0.0 && x.1 <= width && y.0 >= 0.0 && y.1 <= height, "{a:?} is inside");
        for b in &boxes[place + 1..] {
            let (bx, by) = (side(b, "x", "width"), side(b, "y", "height"));
            assert!(x.1 <= bx.0 || bx.1 <= x.0 || y.1 <= by.0 || by.1 <= y.0, "{a:?} and {b:?} overlap");
        }
        let middle = (x.0 + x.1) / 2.0;
        let inner = all.iter().filter(|e| {
            e.name == "text"
                && e.attribute("class").starts_with("middle")
                && !e.attribute("class").contains("mute halo")
                && (e.number("x") - middle).abs() < 0.1
                && e.number("y") > y.0
                && e.number("y") < y.1
        });
        let texts: Vec<&Element> = inner.collect();
        assert!(!texts.is_empty(), "{a:?} says something");
        for text in texts {
            let font = if text.attribute("class").contains("small") { Font::Small } else { Font::Text };
            let wide = text_width(&text.text, font);
            assert!(wide <= a.number("width") - 8.0, "{text:?}, {wide} px, is wider than {a:?}");
        }
    }
}

#[test]
fn every_node_is_a_box_and_every_edge_a_curve() {
    let (graph, services) = sample();
    let svg = draw(&graph, &services);
    let elements = elements(&svg);
    let count = |name: &str| elements.iter().filter(|e| *e == name).count();
    assert_eq!(count("rect"), 1 + LEGEND.len() + 5, "the ground, the legend, and the nodes");
    assert_eq!(count("path"), 2 + 4, "two arrow heads and the edges between known nodes");
    for part in [
        "box good",
        "box bad",
        "box waiting",
        "&lt;x&gt;",
        ">finished<",
        ">any<",
        "edge open",
        ">running · built-in<",
        ">waits for service &quot;migrate&quot; to have",
        ">exited with status 3<",
        "<desc id=\"about\">2 of 4 services are up; not up: migrate failed, web waiting</desc>",
    ] {
        assert!(svg.contains(part), "{part} is in:\n{svg}");
    }
    assert!(svg.contains("waits for service &quot;migrate&quot; to have finished, path &quot;/run/&lt;x&gt;&quot; to exist</title>"));
    assert_readable(&svg);
}

#[test]
fn a_small_graph_is_drawn_so() {
    let (graph, services) = sample();
    golden("src/output/drawing/graph/golden.svg", &draw(&graph, &services));
}

#[test]
fn a_hundred_services_with_long_names() {
    let name = |n: usize| format!("service-{n:03}{}", "-with-a-long-name".repeat(n % 4));
    let states =
        [State::Running, State::Waiting, State::Backoff, State::Stopping, State::Finished, State::Skipped];
    let graph = GraphResponse {
        nodes: (0..100).map(|n| GraphNode { up: n % 6 == 0, ..node(&name(n), states[n % 6]) }).collect(),
        edges: (1..90usize)
            .flat_map(|n| {
                [edge(&name(n), &name(n / 3), "up", true), edge(&name(n), &name(n / 2), "down", n % 7 == 0)]
            })
            .collect(),
    };
    let services: Vec<Service> = (0..100)
        .map(|n| Service {
            name: name(n),
            waiting_for: vec!["service \"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm\" to be up".to_owned()],
            message: "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW".to_owned(),
            ..Service::default()
        })
        .collect();
    let svg = draw(&graph, &services);
    assert_readable(&svg);
    let titles: Vec<String> = read(&svg).into_iter().filter(|e| e.name == "title").map(|e| e.text).collect();
    for n in 0..100 {
        assert!(titles.iter().any(|title| title.starts_with(&name(n))), "{} is drawn", name(n));
    }
    assert_eq!(svg, draw(&graph, &services), "the same each time");
}

#[test]
fn labels_of_edges_do_not_overlap() {
    let nodes = (0..6).map(|n| node(&format!("s{n}"), State::Running)).collect();
    let edges = (1..6).map(|n| edge("s0", &format!("s{n}"), "finished", true)).collect();
    let svg = draw(&GraphResponse { nodes, edges }, &[]);
    let labels: Vec<(f64, f64)> = read(&svg)
        .iter()
        .filter(|e| e.text == "finished" && e.attribute("class").ends_with("halo"))
        .map(|e| (e.number("x"), e.number("y")))
        .collect();
    assert_eq!(labels.len(), 5);
    for (place, a) in labels.iter().enumerate() {
        for b in &labels[place + 1..] {
            assert!((a.0 - b.0).abs() > 40.0 || (a.1 - b.1).abs() > 13.0, "{a:?} and {b:?}");
        }
    }
}

#[test]
fn an_empty_graph_is_a_drawing_too() {
    assert!(elements(&draw(&GraphResponse::default(), &[])).contains(&"svg".to_owned()));
}

#[test]
fn a_level_edge_is_straight() {
    assert_eq!(curve(&[(9.0, 5.0), (1.0, 5.0)]), "M9.0,5.0 L1.0,5.0");
    assert_eq!(curve(&[(9.0, 5.0), (1.0, 7.0)]), "M9.0,5.0 C5.0,5.0 5.0,7.0 1.0,7.0");
}
