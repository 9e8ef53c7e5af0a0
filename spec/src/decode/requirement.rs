//! What a service waits for: the entries of `depends` and `when`.

use super::{Decoder, Place, quoted, shown};
use crate::service::{NetworkAspect, Requirement, ServiceEvent, WhenDown};
use crate::tree::{Node, Position, Value};

const KINDS: [&str; 5] = ["service", "path", "network", "time", "any"];
const KEYS: [&str; 6] = ["service", "event", "path", "network", "time", "any"];

impl Decoder<'_> {
    /// The entries of a list; `references` gets the position of each service named, in the order of a walk.
    pub(super) fn requirements(
        &mut self,
        place: &Place<'_>,
        node: &Node,
        references: &mut Vec<Position>,
    ) -> Option<Vec<Requirement>> {
        self.list(place, node, "a list such as [{service: NAME}, {path: /PATH}]", |d, p, n| {
            d.requirement(p, n, references)
        })
    }

    fn requirement(
        &mut self,
        place: &Place<'_>,
        node: &Node,
        references: &mut Vec<Position>,
    ) -> Option<Requirement> {
        if let Value::Scalar(text) = &node.value {
            let entry = if text.starts_with('/') { "path" } else { "service" };
            let text =
                format!("found {} where a mapping belongs; write {entry}: {}", quoted(text), shown(text));
            self.wrong(place, node.at, text);
            return None;
        }
        let fields = self.fields(place, node, &KEYS)?;
        let kind = self.one_of(&fields, &KINDS)?;
        if kind != "service" && fields.has("event") {
            let text = format!("event belongs to service, not to {kind}");
            self.wrong(&Place::Key(place, "event"), fields.position("event"), text);
        }
        match kind {
            "service" => {
                let events = [
                    ("up", ServiceEvent::Up),
                    ("running", ServiceEvent::Running),
                    ("finished", ServiceEvent::Finished),
                    ("down", ServiceEvent::Down),
                ];
                let mut event = ServiceEvent::Up;
                self.set(&fields, "event", &mut event, |d, p, n| d.choice(p, n, &events));
                let name = self.read(&fields, "service", |d, p, n| d.name(p, n))?;
                references.push(fields.get("service").map_or(node.at, |value| value.at));
                Some(Requirement::Service { name, event, when_down: WhenDown::Ignore })
            }
            "path" => self.read(&fields, "path", |d, p, n| d.path(p, n)).map(Requirement::Path),
            "network" => {
                let aspects = [
                    ("addresses", NetworkAspect::Addresses),
                    ("connectivity", NetworkAspect::Connectivity),
                    ("hostname", NetworkAspect::Hostname),
                ];
                let what = "a list such as [addresses, hostname]";
                let list = |d: &mut Self, p: &Place<'_>, n: &Node| {
                    let list = d.list(p, n, what, |d, p, n| d.choice(p, n, &aspects))?;
                    d.not_empty(p, n, list)
                };
                self.read(&fields, "network", list).map(Requirement::Network)
            }
            "time" => self
                .read(&fields, "time", |d, p, n| d.choice(p, n, &[("synced", ())]))
                .map(|()| Requirement::TimeSynced),
            _ => {
                let list = |d: &mut Self, p: &Place<'_>, n: &Node| {
                    let list = d.requirements(p, n, references)?;
                    d.not_empty(p, n, list)
                };
                self.read(&fields, "any", list).map(Requirement::Any)
            }
        }
    }

    fn not_empty<T>(&mut self, place: &Place<'_>, node: &Node, list: Vec<T>) -> Option<Vec<T>> {
        if matches!(&node.value, Value::Sequence(items) if items.is_empty()) {
            self.wrong(place, node.at, "this list is empty, so it could never hold");
            return None;
        }
        Some(list)
    }
}
