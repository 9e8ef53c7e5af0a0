//! Which service waits for which, and what follows from it: the order to stop in, and mistakes that only show between files.
//!
//! Edges from a service to one that it names in `depends`:
//!
//! - events `up`, `running` and `finished`: the service **needs** the other, before its start and as long as it lives.
//! - event `settled` (the key `after`): the service **follows** the other: it starts after it and stops before it, and does
//!   not need it. Where needs say otherwise they win at a stop.
//! - event `down`: the service waits for the other to have ended. It orders starts, but needs nobody at the stop.
//! - inside `any` the same, as **alternatives**: one of them is enough.
//! - `when` is asked once and orders nothing; its names are checked like all others.

mod check;
mod components;
mod stop;

use kelson_sys::ordered;

use crate::service::{Requirement, ServiceEvent, ServiceSpec};

pub use check::{Problem, check};
pub use stop::StopOrder;

/// One mention of another service in `depends`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge<'g> {
    pub service: &'g str,
    pub event: ServiceEvent,
    /// It stands inside `any`: another alternative may do.
    pub alternative: bool,
}

/// The dependencies between services, by name; also of names that have no spec of their own (built-in and
/// faulty services).
#[derive(Debug, Clone, Default)]
pub struct Graph {
    names: Vec<String>,
    nodes: Vec<Links>,
}

#[derive(Debug, Clone, Default)]
struct Links {
    out: Vec<Link>,
    /// The services that need this one and must be down before it stops.
    needed_by: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    to: usize,
    event: ServiceEvent,
    alternative: bool,
    /// The order to stop in honours it.
    orders_stop: bool,
}

impl Graph {
    /// Of one service there may be several specs: the one that it was started with and the one that its file
    /// says now. A dependency that one of them names counts.
    ///
    /// Specs that passed [`check`] have no cycle among what they need. Alternatives may form one, and then none of that
    /// cycle's alternatives orders the stop. Two specs of a service may form one with each other, and then nothing in that
    /// cycle does. Every order that remains can be kept.
    pub fn new<'s>(specs: impl IntoIterator<Item = &'s ServiceSpec> + Clone) -> Self {
        let mut index = ordered::map(specs.clone().into_iter().map(|spec| (spec.name.as_str(), 0)));
        for spec in specs.clone() {
            walk(&spec.depends, false, &mut |name, _, _| {
                index.insert(name, 0);
            });
        }
        for (number, place) in index.values_mut().enumerate() {
            *place = number;
        }
        let mut nodes = vec![Links::default(); index.len()];
        for spec in specs {
            let Some(links) = index.get(spec.name.as_str()).and_then(|from| nodes.get_mut(*from)) else {
                continue;
            };
            walk(&spec.depends, false, &mut |name, event, alternative| {
                let Some(&to) = index.get(name) else { return };
                let orders_stop = event != ServiceEvent::Down;
                links.out.push(Link { to, event, alternative, orders_stop });
            });
        }
        let names = index.into_keys().map(str::to_owned).collect();
        let mut graph = Graph { names, nodes };
        graph.settle_stop_order();
        graph
    }

    /// Drops what would make the stop order a circle, alternatives first, then turns the rest round.
    fn settle_stop_order(&mut self) {
        self.drop_circles(|link| link.alternative || link.event == ServiceEvent::Settled);
        self.drop_circles(|_| true);
        let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (from, links) in self.nodes.iter().enumerate() {
            for link in links.out.iter().filter(|link| link.orders_stop) {
                if let Some(list) = needed_by.get_mut(link.to) {
                    list.push(from);
                }
            }
        }
        for (links, mut list) in self.nodes.iter_mut().zip(needed_by) {
            ordered::sort(&mut list);
            list.dedup();
            links.needed_by = list;
        }
    }

    /// Of the links that are part of a circle, those that `gives_way` names order the stop no longer.
    fn drop_circles(&mut self, gives_way: impl Fn(&Link) -> bool) {
        let ordering = |node: usize| {
            let links = self.nodes.get(node).map(|links| links.out.as_slice()).unwrap_or_default();
            links.iter().filter(|link| link.orders_stop).map(|link| link.to).collect()
        };
        let component = components::components(self.nodes.len(), ordering);
        for (from, links) in self.nodes.iter_mut().enumerate() {
            for link in &mut links.out {
                link.orders_stop &= component.get(from) != component.get(link.to) || !gives_way(link);
            }
        }
    }

    fn links(&self, name: &str) -> Option<&Links> {
        let place = self.names.binary_search_by(|known| known.as_str().cmp(name)).ok()?;
        self.nodes.get(place)
    }

    fn name(&self, place: usize) -> &str {
        self.names.get(place).map(String::as_str).unwrap_or_default()
    }

    /// Every mention of another service in `depends` of `name`, in the file's order.
    pub fn edges(&self, name: &str) -> impl Iterator<Item = Edge<'_>> {
        let out = self.links(name).map(|links| links.out.as_slice()).unwrap_or_default();
        out.iter().map(|link| Edge {
            service: self.name(link.to),
            event: link.event,
            alternative: link.alternative,
        })
    }

    /// The services that `name` depends on directly, whatever the event; sorted, each once.
    pub fn dependencies(&self, name: &str) -> Vec<&str> {
        let mut list: Vec<&str> = self.edges(name).map(|edge| edge.service).collect();
        ordered::sort(&mut list);
        list.dedup();
        list
    }

    /// The services that need `name` directly, so that they must be down before it stops; sorted, each once. Those that
    /// wait for it to be down are not among them.
    pub fn dependants(&self, name: &str) -> Vec<&str> {
        let list = self.links(name).map(|links| links.needed_by.as_slice()).unwrap_or_default();
        list.iter().map(|place| self.name(*place)).collect()
    }

    /// Layers to stop one after the other: nobody needs a service of the first; who is needed by services of earlier layers
    /// alone is in the next. A service stops as soon as its [`Self::dependants`] are down; the layers are for showing.
    pub fn stop_order(&self) -> Vec<Vec<&str>> {
        let mut waits_for: Vec<usize> = self.nodes.iter().map(|links| links.needed_by.len()).collect();
        let free = waits_for.iter().enumerate().filter(|(_, count)| **count == 0);
        let mut layer: Vec<usize> = free.map(|(place, _)| place).collect();
        let mut layers = Vec::new();
        while !layer.is_empty() {
            let mut next = Vec::new();
            for place in &layer {
                let mut needed: Vec<usize> = match self.nodes.get(*place) {
                    Some(links) => {
                        links.out.iter().filter(|link| link.orders_stop).map(|link| link.to).collect()
                    }
                    None => Vec::new(),
                };
                ordered::sort(&mut needed);
                needed.dedup();
                for to in needed {
                    if let Some(count) = waits_for.get_mut(to) {
                        *count = count.saturating_sub(1);
                        if *count == 0 {
                            next.push(to);
                        }
                    }
                }
            }
            ordered::sort(&mut next);
            layers.push(layer.iter().map(|place| self.name(*place)).collect());
            layer = next;
        }
        layers
    }
}

/// Every mention of another service in `depends`, in the file's order.
pub fn edges_of(spec: &ServiceSpec) -> Vec<Edge<'_>> {
    let mut edges = Vec::new();
    walk(&spec.depends, false, &mut |service, event, alternative| {
        edges.push(Edge { service, event, alternative });
    });
    edges
}

/// Calls `visit(name, event, inside any)` for each service named, in the order of the file.
fn walk<'s>(
    requirements: &'s [Requirement],
    alternative: bool,
    visit: &mut impl FnMut(&'s str, ServiceEvent, bool),
) {
    for requirement in requirements {
        match requirement {
            Requirement::Service { name, event, .. } => visit(name, *event, alternative),
            // An `any` of one has no other alternative.
            Requirement::Any(list) => walk(list, alternative || list.len() > 1, visit),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a: b c` is a service `a` that needs `b` and `c`; `b!down` names the event, `b|c` is an `any`.
    pub(super) fn specs(text: &str) -> Vec<ServiceSpec> {
        let requirement = |word: &str| {
            let (name, event) = word.split_once('!').unwrap_or((word, "up"));
            let event = match event {
                "running" => ServiceEvent::Running,
                "finished" => ServiceEvent::Finished,
                "down" => ServiceEvent::Down,
                "settled" => ServiceEvent::Settled,
                _ => ServiceEvent::Up,
            };
            match name.strip_prefix('/') {
                Some(_) => Requirement::Path(name.into()),
                None => Requirement::service(name, event),
            }
        };
        text.lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| {
                let (name, words) = line.trim().split_once(':').unwrap();
                let (name, manual) = name.strip_suffix('*').map_or((name, false), |name| (name, true));
                let mut spec = ServiceSpec::process(name, ["/bin/true"]);
                if manual {
                    spec.start = crate::service::StartMode::Manual;
                }
                spec.depends = words
                    .split_whitespace()
                    .map(|word| match word.split('|').collect::<Vec<_>>().as_slice() {
                        [one] => requirement(one),
                        several => Requirement::Any(several.iter().map(|word| requirement(word)).collect()),
                    })
                    .collect();
                spec
            })
            .collect()
    }

    #[test]
    fn knows_both_directions() {
        let graph =
            Graph::new(&specs("a: b c!finished\nb: c containerd\nc:\nd: c!down\ne: a|/x a!running\n"));
        assert_eq!(graph.dependencies("a"), ["b", "c"]);
        assert_eq!(graph.dependencies("d"), ["c"]);
        assert_eq!(graph.dependants("c"), ["a", "b"], "who waits for it to be down does not need it");
        assert_eq!(graph.dependants("a"), ["e"]);
        assert_eq!(graph.dependants("containerd"), ["b"]);
        assert_eq!(graph.dependencies("nobody"), Vec::<&str>::new());
        assert_eq!(graph.dependants("nobody"), Vec::<&str>::new());
        let edges: Vec<Edge<'_>> = graph.edges("e").collect();
        let edge = |event, alternative| Edge { service: "a", event, alternative };
        assert_eq!(edges, [edge(ServiceEvent::Up, true), edge(ServiceEvent::Running, false)]);
    }

    #[test]
    fn stops_in_reverse() {
        let graph =
            Graph::new(&specs("a:\nb: a\nc: b\nx:\nleft: x\nright: x\ntop: left right right\nlone:\n"));
        assert_eq!(
            graph.stop_order(),
            [vec!["c", "lone", "top"], vec!["b", "left", "right"], vec!["a", "x"]]
        );
    }

    #[test]
    fn alternatives_in_a_circle_do_not_hold_the_stop_up() {
        let specs = specs("a: b|/ready\nb: a\nc: a|b\n");
        assert_eq!(check(&specs, &Default::default(), &[]), []);
        let graph = Graph::new(&specs);
        assert_eq!(graph.dependants("a"), ["b", "c"]);
        assert_eq!(graph.dependants("b"), ["c"]);
        assert_eq!(graph.stop_order(), [["c"], ["b"], ["a"]]);
    }

    #[test]
    fn what_follows_a_service_stops_before_it_unless_a_need_says_otherwise() {
        let followed = specs("a: b!settled\nb: c\nc:\n");
        assert_eq!(Graph::new(&followed).stop_order(), [["a"], ["b"], ["c"]]);
        // A manual service is down at first, so it starts after the one that needs it only if somebody wants it so.
        let circle = specs("a: b!settled\nb*: a\n");
        assert_eq!(check(&circle, &Default::default(), &[]), []);
        assert_eq!(Graph::new(&circle).stop_order(), [["b"], ["a"]]);
    }

    #[test]
    fn what_either_spec_of_a_service_needs_counts() {
        let two = specs("web: db\nweb: cache\ndb:\ncache:\n");
        assert_eq!(Graph::new(&two).stop_order(), [vec!["web"], vec!["cache", "db"]]);
        // They contradict each other: between these two there is no order, below them there is.
        let two = specs("web: db\ndb: disk\nweb:\ndb: web disk\ndisk:\n");
        assert_eq!(Graph::new(&two).stop_order(), [vec!["db", "web"], vec!["disk"]]);
    }

    #[test]
    fn ten_thousand_in_a_row() {
        let text: String = (0..10_000).map(|n| format!("s{n:05}: s{:05}\n", n + 1)).collect();
        let specs = specs(&format!("{text}s10000:\n"));
        assert_eq!(check(&specs, &Default::default(), &[]), []);
        let graph = Graph::new(&specs);
        assert_eq!(graph.stop_order().len(), 10_001);
        assert_eq!(graph.dependants("s10000"), ["s09999"]);
    }
}
