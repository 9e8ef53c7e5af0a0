//! Mistakes that only show between files: unknown names, services that wait for themselves or for each other.
//!
//! A cycle is what can never start, found by asking what can: a service can start when each of its requirements can
//! come to hold through services that can start. `any` asks for one such alternative. `down` holds for a manual service
//! at once and for another after it ran, so it asks that the other can start too, unless it is manual. Among those that
//! can never start, the ones that (through each other) wait for themselves are a cycle; the others merely wait for a
//! cycle and are sound.

use kelson_sys::ordered;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::components::components;
use super::walk;
use crate::near::near;
use crate::service::{Requirement, ServiceEvent, ServiceSpec, StartMode};

/// The longest cycle that is written out whole.
const LONGEST_PATH: usize = 64;
/// The largest knot of services in which each gets a path of its own.
const LARGEST_KNOT: usize = 256;

/// How many steps of a cycle are reported as coming from a group.
const MOST_STEPS: usize = 4;

/// How many unknown names get a "did you mean".
const MOST_HINTS: usize = 20;

/// A mistake of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its place in the list of specs.
    pub service: usize,
    /// Which mention of a service it is about: counted through `depends`, then `when`, in the order of the file.
    pub reference: usize,
    pub message: String,
}

/// All mistakes between `specs`; `others` are names that may be depended on though they have no spec (built-in and
/// faulty). `by_group`: of each spec, how many of the first entries of `depends` its group put there; none where the
/// list ends.
pub fn check(specs: &[ServiceSpec], others: &BTreeSet<String>, by_group: &[usize]) -> Vec<Problem> {
    let index = ordered::map(specs.iter().enumerate().map(|(place, spec)| (spec.name.as_str(), place)));
    let mut problems = unknown_and_self(specs, &index, others);
    cycles(specs, &index, by_group, &mut problems);
    ordered::sort_by_key(&mut problems, |problem| (problem.service, problem.reference));
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
        let mut look = |name: &str, key: &str, needed: bool| {
            let message = if name == spec.name {
                Some(format!("{key}: service {name} waits for itself"))
            } else if !needed || index.contains_key(name) || others.contains(name) {
                None
            } else {
                // To look through all names for each of thousands would take long.
                let worth = problems.len() < MOST_HINTS;
                let known = index.keys().copied().filter(|known| worth && *known != spec.name);
                let near = near(name, known.chain(others.iter().map(String::as_str)));
                let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                Some(format!("{key}: there is no service {name}{hint}"))
            };
            problems.extend(message.map(|message| Problem { service, reference, message }));
            reference = reference.saturating_add(1);
        };
        walk(&spec.depends, false, &mut |name, event, _| match event {
            ServiceEvent::Settled => look(name, "after", false),
            _ => look(name, "depends", true),
        });
        walk(&spec.when, false, &mut |name, _, _| look(name, "when", true));
    }
    problems
}

fn cycles(
    specs: &[ServiceSpec],
    index: &BTreeMap<&str, usize>,
    by_group: &[usize],
    problems: &mut Vec<Problem>,
) {
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
            // A short one is each of its services' own; a long one is not copied for each.
            let turns = if path.len() <= LONGEST_PATH { path.len() } else { 1 };
            for turn in 0..turns {
                let mut turned = path.clone();
                turned.rotate_left(turn);
                if let Some(&first) = turned.first() {
                    paths.entry(first).or_insert(turned);
                }
            }
        }
        let said = |path: &[usize]| format!("{}{}", written(path, name), from_groups(path, specs, by_group));
        let shown = paths.values().next().map(|path| said(path)).unwrap_or_default();
        for &service in &members {
            let own = paths.get(&service);
            let to = own.and_then(|path| path.get(1)).copied();
            let reference = waits.get(service).into_iter().flatten().find(|(target, _)| match to {
                Some(to) => *target == to,
                None => component.get(*target) == component.get(service),
            });
            let reference = reference.map_or(0, |(_, reference)| *reference);
            let key = match specs.get(service).map(|spec| spec.depends.as_slice()) {
                _ if reference < by_group.get(service).copied().unwrap_or(0) => "group",
                Some(depends) if is_after(depends, reference) => "after",
                _ => "depends",
            };
            let message = match own {
                Some(path) => format!("{key}: services wait for each other: {}", said(path)),
                None => {
                    format!("{key}: {} services wait for each other, this one too: {shown}", members.len())
                }
            };
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
    // How many of its first requirements may hold. One that may hold always may: only the next is asked again.
    let mut passed = vec![0_usize; specs.len()];
    let mut open: VecDeque<usize> = (0..specs.len()).collect();
    while let Some(place) = open.pop_front() {
        let (Some(spec), Some(passed)) = (specs.get(place), passed.get_mut(place)) else { continue };
        let rest = spec.depends.iter().skip(*passed);
        let more = rest.take_while(|requirement| may_hold(requirement, &can, specs, index)).count();
        *passed = passed.saturating_add(more);
        if can.get(place) == Some(&true) || *passed < spec.depends.len() {
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
        Requirement::Service { name, event, .. } => {
            let Some(&place) = index.get(name.as_str()) else { return true };
            let manual = specs.get(place).is_some_and(|spec| spec.start == StartMode::Manual);
            can.get(place) == Some(&true)
                || (matches!(event, ServiceEvent::Down | ServiceEvent::Settled) && manual)
        }
        Requirement::Any(list) => list.iter().any(|r| may_hold(r, can, specs, index)),
        _ => true,
    }
}

/// Whether the mention of a service at this place stands in `after`.
fn is_after(depends: &[Requirement], reference: usize) -> bool {
    let (mut place, mut found) = (0_usize, false);
    walk(depends, false, &mut |_, event, _| {
        found |= place == reference && event == ServiceEvent::Settled;
        place = place.saturating_add(1);
    });
    found
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
            _ => {}
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
    let half = LONGEST_PATH / 2;
    let shown = |part: &[usize]| part.iter().map(|place| name(*place).to_owned()).collect::<Vec<_>>();
    let mut words = match (path.get(..half), path.len().checked_sub(half).and_then(|tail| path.get(tail..))) {
        (Some(head), Some(tail)) if path.len() > LONGEST_PATH => {
            let mut words = shown(head);
            words.push(format!("… {} more …", path.len().saturating_sub(LONGEST_PATH)));
            words.append(&mut shown(tail));
            words
        }
        _ => shown(path),
    };
    words.extend(words.first().cloned());
    words.join(" → ")
}

/// Which steps of a cycle stand in no file: `; a → b comes from group shop`.
fn from_groups(path: &[usize], specs: &[ServiceSpec], by_group: &[usize]) -> String {
    let steps = path.iter().zip(path.iter().cycle().skip(1));
    let made = steps.filter_map(|(from, to)| {
        let (from_spec, to) = (specs.get(*from)?, specs.get(*to)?);
        let count = by_group.get(*from).copied().unwrap_or(0);
        let is_for =
            |entry: &Requirement| matches!(entry, Requirement::Service { name, .. } if *name == to.name);
        let group = from_spec.group.as_deref().unwrap_or_default();
        let found = from_spec.depends.iter().take(count).any(is_for);
        found.then(|| format!("; {} → {} comes from group {group}", from_spec.name, to.name))
    });
    made.take(MOST_STEPS).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::specs;
    use super::*;

    /// `service@reference: message` of each problem.
    fn problems(text: &str) -> Vec<String> {
        let specs = specs(text);
        let others = BTreeSet::from(["containerd".to_owned(), "faulty".to_owned()]);
        let shown = |p: Problem| format!("{}@{}: {}", specs[p.service].name, p.reference, p.message);
        check(&specs, &others, &[]).into_iter().map(shown).collect()
    }

    fn cycle(start: &str, path: &str) -> String {
        format!("{start}: depends: services wait for each other: {path}")
    }

    #[test]
    fn a_cycle_is_shown_whole_from_each_of_its_services() {
        assert_eq!(
            problems("a: /x b\nb: d c\nc: a\nd:\nwaits: a\nalone:\n"),
            [cycle("a@0", "a → b → c → a"), cycle("b@1", "b → c → a → b"), cycle("c@0", "c → a → b → c")]
        );
    }

    #[test]
    fn every_event_but_a_down_that_can_hold_makes_a_cycle() {
        for event in ["up", "running", "finished", "down", "settled"] {
            let found = problems(&format!("a: b!{event}\nb: a\n"));
            let mut first = cycle("a@0", "a → b → a");
            if event == "settled" {
                first = first.replace("depends", "after");
            }
            assert_eq!(found, [first, cycle("b@0", "b → a → b")], "{event}");
        }
        // A manual service that was never started is down.
        assert_eq!(problems("a: b!down\nb*: a\n"), Vec::<String>::new());
        assert_eq!(problems("a: b!down\nb:\n"), Vec::<String>::new());
        assert_eq!(problems("a: b!settled\nb*: a\n"), Vec::<String>::new());
        assert_eq!(problems("a: faulty!down containerd\n"), Vec::<String>::new());
    }

    #[test]
    fn an_alternative_that_can_hold_breaks_a_cycle() {
        assert_eq!(problems("a: b|/x\nb: a\n"), Vec::<String>::new());
        assert_eq!(problems("a: b|faulty\nb: a\n"), Vec::<String>::new());
        assert_eq!(problems("a: b|c\nb: a\nc:\n"), Vec::<String>::new());
        assert_eq!(
            problems("a: b|c\nb: a\nc: a\n"),
            [cycle("a@0", "a → b → a"), cycle("b@0", "b → a → b"), cycle("c@0", "c → a → c")]
        );
    }

    #[test]
    fn unknown_names_and_oneself() {
        assert_eq!(
            problems("a: containerd faulty dbs|x\ndb: db\nx: a a!down\n"),
            [
                "a@2: depends: there is no service dbs; did you mean db?",
                "db@0: depends: service db waits for itself"
            ]
        );
        assert_eq!(
            problems("a: nobody!settled a!settled\n"),
            ["a@1: after: service a waits for itself"],
            "an order without a need may name a service that is not there"
        );
        let mut one = specs("a: /x\n");
        let when = |name: &str| Requirement::service(name, ServiceEvent::Up);
        one[0].depends.push(when("b"));
        one[0].when.push(when("c"));
        let found = check(&one, &BTreeSet::new(), &[]);
        let places: Vec<(usize, &str)> = found.iter().map(|p| (p.reference, p.message.as_str())).collect();
        assert_eq!(places, [(0, "depends: there is no service b"), (1, "when: there is no service c")]);
    }

    #[test]
    fn a_ring_of_ten_thousand_is_told_in_few_words() {
        let text: String = (0..10_000).map(|n| format!("s{n:05}: s{:05}\n", (n + 1) % 10_000)).collect();
        let found = problems(&text);
        assert_eq!(found.len(), 10_000);
        assert!(found.iter().all(|line| line.len() < 1000), "a path is not cut");
        assert!(found[0].starts_with("s00000@0: depends: services wait for each other: s00000 → s00001 → "));
        assert!(
            found[0].ends_with(" → s09999 → s00000") && found[0].contains("… 9936 more …"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn two_thousand_unknown_names_take_no_long_time() {
        let text: String = (0..2_000).map(|n| format!("s{n:05}: s{n:05}x\n")).collect();
        let found = problems(&text);
        assert_eq!(found.len(), 2_000);
        assert_eq!(found[0], "s00000@0: depends: there is no service s00000x; did you mean s00001?");
        assert_eq!(found[1_999], "s01999@0: depends: there is no service s01999x");
    }

    #[test]
    fn a_row_and_one_that_needs_all_of_it_take_no_long_time() {
        let row: String = (0..10_000).map(|n| format!("s{n:05}: s{:05}\n", n + 1)).collect();
        // From the end of the row, so that the next one becomes able to start with each.
        let names: Vec<String> = (0..=10_000).rev().map(|n| format!("s{n:05}")).collect();
        let found = problems(&format!("all: {}\n{row}s10000:\n", names.join(" ")));
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_dense_knot_takes_no_long_time() {
        let names: Vec<String> = (0..300).map(|n| format!("s{n:03}")).collect();
        let text: String = names
            .iter()
            .map(|name| {
                let others: Vec<&str> =
                    names.iter().filter(|other| *other != name).map(String::as_str).collect();
                format!("{name}: {}\n", others.join(" "))
            })
            .collect();
        let found = problems(&text);
        assert_eq!(found.len(), 300);
        assert_eq!(found[0], cycle("s000@0", "s000 → s001 → s000"));
        assert_eq!(
            found[299],
            "s299@0: depends: 300 services wait for each other, this one too: s000 → s001 → s000"
        );
    }
}
