//! Mistakes that only show between files: unknown names, services that wait for themselves or for each other.
//!
//! A cycle is what can never start, found by asking what can: a service can start when each of its requirements can come to
//! hold through services that can start. `any` asks for one such alternative. `down` holds for a manual service at once
//! and for another after it ran, so it asks that the other can start too, unless it is manual. Among those that can never
//! start, the ones that (through each other) wait for themselves are a cycle; the others merely wait for a cycle and are sound.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::walk;
use crate::near::near;
use crate::service::{Requirement, ServiceEvent, ServiceSpec, StartMode};

/// The longest cycle that is written out whole.
const LONGEST_PATH: usize = 64;
/// The largest knot of services in which each gets a path of its own.
const LARGEST_KNOT: usize = 256;

/// A mistake of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its place in the list of specs.
    pub service: usize,
    /// Which mention of a service it is about: counted through `depends`, then `when`, in the order of the file.
    pub reference: usize,
    pub message: String,
}

/// All mistakes between `specs`; `others` are names that may be depended on though they have no spec (built-in and faulty).
pub fn check(specs: &[ServiceSpec], others: &BTreeSet<String>) -> Vec<Problem> {
    let index: BTreeMap<&str, usize> =
        specs.iter().enumerate().map(|(place, spec)| (spec.name.as_str(), place)).collect();
    let mut problems = unknown_and_self(specs, &index, others);
    cycles(specs, &index, &mut problems);
    problems.sort_by_key(|problem| (problem.service, problem.reference));
    problems
}

fn unknown_and_self(
    specs: &[ServiceSpec],
    index: &BTreeMap<&str, usize>,
    others: &BTreeSet<String>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (service, spec) in specs.iter().enumerate() {
        let mut reference = 0_usize;
        let mut look = |name: &str, key: &str| {
            let message = if name == spec.name {
                Some(format!("{key}: service {name} waits for itself"))
            } else if index.contains_key(name) || others.contains(name) {
                None
            } else {
                let known = index.keys().copied().filter(|known| *known != spec.name);
                let near = near(name, known.chain(others.iter().map(String::as_str)));
                let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                Some(format!("{key}: there is no service {name}{hint}"))
            };
            problems.extend(message.map(|message| Problem { service, reference, message }));
            reference = reference.saturating_add(1);
        };
        walk(&spec.depends, false, &mut |name, _, _| look(name, "depends"));
        walk(&spec.when, false, &mut |name, _, _| look(name, "when"));
    }
    problems
}

fn cycles(specs: &[ServiceSpec], index: &BTreeMap<&str, usize>, problems: &mut Vec<Problem>) {
    let startable = startable(specs, index);
    // From each that can never start to those it waits for in vain, with the place of the mention.
    let mut waits: Vec<Vec<(usize, usize)>> = vec![Vec::new(); specs.len()];
    for (from, (spec, list)) in specs.iter().zip(&mut waits).enumerate() {
        if startable.get(from) != Some(&false) {
            continue;
        }
        let mut reference = 0_usize;
        in_vain(&spec.depends, &startable, specs, index, &mut reference, list);
        // A service that waits for itself has been named already.
        list.retain(|(to, _)| *to != from);
    }
    let next = |place: usize| -> Vec<usize> {
        waits.get(place).map(|list| list.iter().map(|(to, _)| *to).collect()).unwrap_or_default()
    };
    let component = components(specs.len(), next);
    let mut knots: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, knot) in component.iter().enumerate() {
        if startable.get(place) == Some(&false) {
            knots.entry(*knot).or_default().push(place);
        }
    }
    let name = |place: usize| specs.get(place).map(|spec| spec.name.as_str()).unwrap_or_default();
    for members in knots.into_values().filter(|members| members.len() > 1) {
        let mut paths: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &start in &members {
            if paths.contains_key(&start) || (!paths.is_empty() && members.len() > LARGEST_KNOT) {
                continue;
            }
            let path = shortest_cycle(start, &waits, &component);
            for turn in 0..path.len() {
                let mut turned = path.clone();
                turned.rotate_left(turn);
                if let Some(&first) = turned.first()
                    && (path.len() <= LONGEST_PATH || turn == 0)
                {
                    paths.entry(first).or_insert(turned);
                }
            }
        }
        let shown = paths.values().next().cloned().unwrap_or_default();
        for &service in &members {
            let own = paths.get(&service);
            let to = own.and_then(|path| path.get(1)).copied();
            let reference = waits.get(service).into_iter().flatten().find(|(target, _)| match to {
                Some(to) => *target == to,
                None => component.get(*target) == component.get(service),
            });
            let message = match own {
                Some(path) => format!("depends: services wait for each other: {}", written(path, name)),
                None => format!(
                    "depends: {} services wait for each other, this one too: {}",
                    members.len(),
                    written(&shown, name)
                ),
            };
            let reference = reference.map_or(0, |(_, reference)| *reference);
            problems.push(Problem { service, reference, message });
        }
    }
}

/// Which services can ever start, as far as the others are concerned.
fn startable(specs: &[ServiceSpec], index: &BTreeMap<&str, usize>) -> Vec<bool> {
    let mut can = vec![false; specs.len()];
    let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); specs.len()];
    for (from, spec) in specs.iter().enumerate() {
        walk(&spec.depends, false, &mut |name, _, _| {
            if let Some(list) = index.get(name).and_then(|to| needed_by.get_mut(*to)) {
                list.push(from);
            }
        });
    }
    let mut open: VecDeque<usize> = (0..specs.len()).collect();
    while let Some(place) = open.pop_front() {
        let Some(spec) = specs.get(place) else { continue };
        if can.get(place) == Some(&true) || !spec.depends.iter().all(|r| may_hold(r, &can, specs, index)) {
            continue;
        }
        if let Some(mark) = can.get_mut(place) {
            *mark = true;
        }
        open.extend(needed_by.get(place).into_iter().flatten());
    }
    can
}

/// Whether a requirement can come to hold when those of `can` start. Names without a spec are not judged here.
fn may_hold(
    requirement: &Requirement,
    can: &[bool],
    specs: &[ServiceSpec],
    index: &BTreeMap<&str, usize>,
) -> bool {
    match requirement {
        Requirement::Service { name, event } => {
            let Some(&place) = index.get(name.as_str()) else { return true };
            let manual = specs.get(place).is_some_and(|spec| spec.start == StartMode::Manual);
            can.get(place) == Some(&true) || (*event == ServiceEvent::Down && manual)
        }
        Requirement::Any(list) => list.iter().any(|r| may_hold(r, can, specs, index)),
        Requirement::Path(_) | Requirement::Network(_) | Requirement::TimeSynced => true,
    }
}

/// The services of requirements that can never hold, with the place of each mention.
fn in_vain(
    requirements: &[Requirement],
    can: &[bool],
    specs: &[ServiceSpec],
    index: &BTreeMap<&str, usize>,
    reference: &mut usize,
    found: &mut Vec<(usize, usize)>,
) {
    for requirement in requirements {
        let vain = !may_hold(requirement, can, specs, index);
        let before = found.len();
        match requirement {
            Requirement::Service { name, .. } => {
                found.extend(index.get(name.as_str()).map(|place| (*place, *reference)));
                *reference = reference.saturating_add(1);
            }
            Requirement::Any(list) => in_vain(list, can, specs, index, reference, found),
            Requirement::Path(_) | Requirement::Network(_) | Requirement::TimeSynced => {}
        }
        if !vain {
            found.truncate(before);
        }
    }
}

/// The shortest way from `start` back to itself among its own component.
fn shortest_cycle(start: usize, waits: &[Vec<(usize, usize)>], component: &[usize]) -> Vec<usize> {
    let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(place) = open.pop_front() {
        for &(to, _) in waits.get(place).into_iter().flatten() {
            if to == start {
                let mut path = vec![place];
                let mut at = place;
                while let Some(&before) = came_from.get(&at) {
                    path.push(before);
                    at = before;
                }
                path.reverse();
                return path;
            }
            if component.get(to) == component.get(start) && !came_from.contains_key(&to) {
                came_from.insert(to, place);
                open.push_back(to);
            }
        }
    }
    Vec::new()
}

/// `a → b → c → a`; the middle of a very long one is counted.
fn written<'s>(path: &[usize], name: impl Fn(usize) -> &'s str) -> String {
    let mut words: Vec<String> = path.iter().map(|place| name(*place).to_owned()).collect();
    words.extend(words.first().cloned());
    if words.len() > LONGEST_PATH {
        let half = LONGEST_PATH / 2;
        let tail = words.split_off(words.len().saturating_sub(half));
        let between = words.split_off(half.min(words.len()));
        words.push(format!("… {} more …", between.len()));
        words.extend(tail);
    }
    words.join(" → ")
}

/// The strongly connected component of each node, by Tarjan's way with a stack of its own.
pub(super) fn components(nodes: usize, next: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
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
