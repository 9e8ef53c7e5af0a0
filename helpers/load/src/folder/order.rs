//! `before`, and points of the order such as `network.target`: both become entries of `after` of the services that wait, so
//! that the order of starts and of stops, cycles, `why` and `graph` need to know nothing of them.

use std::collections::{BTreeMap, BTreeSet};

use super::Reading;
use crate::decode::{Decoded, diagnostic};
use crate::tree::Position;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::names::is_point;
use kelson_spec::near::near;
use kelson_spec::service::{Requirement, ServiceEvent, ServiceSpec, StartMode};

/// Of each service that waits, by its place, those that come before it.
type Before = BTreeMap<usize, BTreeSet<String>>;

impl Reading {
    /// Makes services wait for those that are to come before them.
    pub(super) fn order(&mut self) {
        if const { !OWN.has(Feature::Units) } {
            return;
        }
        let (mut before, mut mistakes) = (Before::new(), Vec::new());
        let places: BTreeMap<&str, usize> =
            self.services.iter().enumerate().map(|(place, decoded)| (&*decoded.spec.name, place)).collect();
        let points = after_points(&self.services);
        for (place, decoded) in self.services.iter().enumerate() {
            let spec = &decoded.spec;
            for (key, name, at) in &decoded.mentions {
                let found = places.get(name.as_str());
                if *key == "conflicts" {
                    let other = found.and_then(|place| self.services.get(*place));
                    if let Some(text) = other.and_then(|other| contradiction(spec, &other.spec)) {
                        mistakes.push((spec.file.clone(), *at, spec.name.clone(), text));
                    }
                    continue;
                }
                if found.is_none() && !is_point(name) && !self.known.contains(name) {
                    let hint = near(name, places.keys().copied());
                    let hint = hint.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                    let text = format!("{key}: there is no service {name}, so this means nothing{hint}");
                    self.warnings.push(diagnostic(&spec.file, *at, Some(&spec.name), text));
                }
                if ["onFailure", "onSuccess"].contains(key) && leads_to(&self.services, name, &spec.name) {
                    let text = format!("{key}: they would start each other without end; leave {name} out");
                    mistakes.push((spec.file.clone(), *at, spec.name.clone(), text));
                }
                if *key != "before" {
                    continue;
                }
                if found == Some(&place) {
                    let text = "before: a service cannot start before itself; leave its own name out";
                    mistakes.push((spec.file.clone(), *at, spec.name.clone(), text.to_owned()));
                }
                let of_point = points.get(name.as_str()).into_iter().flatten();
                for waiting in of_point.chain(found).filter(|waiting| **waiting != place) {
                    before.entry(*waiting).or_default().insert(spec.name.clone());
                }
            }
        }
        for (place, decoded) in self.services.iter_mut().enumerate() {
            settle(decoded, before.remove(&place).unwrap_or_default());
        }
        for (file, at, name, text) in mistakes {
            self.diagnostics.push(diagnostic(&file, at, Some(&name), text));
            self.services.retain(|decoded| decoded.spec.name != name);
            self.known.insert(name);
        }
    }
}

/// Why a service cannot conflict with another one.
fn contradiction(spec: &ServiceSpec, other: &ServiceSpec) -> Option<String> {
    if spec.name == other.name {
        return Some("conflicts: a service cannot conflict with itself; leave its own name out".to_owned());
    }
    let both = spec.start == StartMode::Auto && other.start == StartMode::Auto;
    both.then(|| {
        let name = &other.name;
        format!("conflicts: {name} starts with the boot too, and only one of the two can run; write start: manual in one of the files")
    })
}

/// Whether the end of a service starts this one, at once or by way of others.
fn leads_to(services: &[Decoded], from: &str, to: &str) -> bool {
    let (mut open, mut seen) = (vec![from], BTreeSet::new());
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        let spec = services.iter().map(|decoded| &decoded.spec).find(|spec| spec.name == name);
        if let Some(spec) = spec.filter(|_| seen.insert(name)) {
            open.extend(spec.on_failure.iter().chain(&spec.on_success).map(String::as_str));
        }
    }
    false
}

/// The services that come after each point.
fn after_points(services: &[Decoded]) -> BTreeMap<&str, Vec<usize>> {
    let mut points = BTreeMap::<&str, Vec<usize>>::new();
    for (place, decoded) in services.iter().enumerate() {
        for name in decoded.spec.depends.iter().filter_map(Requirement::after).filter(|name| is_point(name)) {
            points.entry(name).or_default().push(place);
        }
    }
    points
}

/// Adds the services that come before this one to its `after`, in place of the points that stand there.
fn settle(decoded: &mut Decoded, before: BTreeSet<String>) {
    let is_of_point = |entry: &Requirement| entry.after().is_some_and(is_point);
    if before.is_empty() && !decoded.spec.depends.iter().any(is_of_point) {
        return;
    }
    let mut references = std::mem::take(&mut decoded.references).into_iter();
    let (mut depends, mut places) = (Vec::new(), Vec::new());
    for entry in std::mem::take(&mut decoded.spec.depends) {
        let of_it: Vec<Position> = references.by_ref().take(mentions(&entry)).collect();
        if !is_of_point(&entry) {
            places.extend(of_it);
            depends.push(entry);
        }
    }
    for name in before {
        if !depends.iter().any(|entry: &Requirement| entry.is_for(&name, ServiceEvent::Settled)) {
            depends.push(Requirement::service(name, ServiceEvent::Settled));
            places.push(Position::START);
        }
    }
    places.extend(references);
    (decoded.spec.depends, decoded.references) = (depends, places);
}

/// How many services an entry names.
fn mentions(entry: &Requirement) -> usize {
    match entry {
        Requirement::Service { .. } => 1,
        Requirement::Any(list) => list.iter().map(mentions).fold(0, usize::saturating_add),
        _ => 0,
    }
}
