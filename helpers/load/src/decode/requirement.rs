//! What a service waits for: the entries of `depends` and `when`.

use super::{Decoder, Fields, Place, quoted, shown};
use crate::tree::{Node, Position, Value};
use kelson_spec::service::{NetworkAspect, Requirement, ServiceEvent, WhenDown};

const KINDS: [&str; 5] = ["service", "path", "network", "time", "any"];
const KEYS: [&str; 7] = ["service", "event", "whenDown", "path", "network", "time", "any"];

/// What a list of entries is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Depends,
    /// Asked once at the start.
    When,
    /// One of them is enough.
    Any,
}

impl Decoder<'_> {
    /// The entries of a list; `references` gets the position of each service named, in the order of a walk.
    pub(super) fn requirements(
        &mut self,
        within: Use,
        place: &Place<'_>,
        node: &Node,
        references: &mut Vec<Position>,
    ) -> Option<Vec<Requirement>> {
        self.list(place, node, "a list such as [{service: NAME}, {path: /PATH}]", |d, p, n| {
            d.requirement(within, p, n, references)
        })
    }

    fn requirement(
        &mut self,
        within: Use,
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
        if kind != "service" {
            for key in ["event", "whenDown"].into_iter().filter(|key| fields.has(key)) {
                let text = format!("{key} belongs to service, not to {kind}");
                self.wrong(&Place::Key(place, key), fields.position(key), text);
            }
        }
        match kind {
            "service" => {
                let events = ServiceEvent::ALL.map(|event| (event.name(), event));
                let mut event = ServiceEvent::Up;
                self.set(&fields, "event", &mut event, |d, p, n| d.choice(p, n, &events));
                let when_down = self.when_down(within, event, &fields);
                let name = self.read(&fields, "service", |d, p, n| d.name(p, n))?;
                references.push(fields.get("service").map_or(node.at, |value| value.at));
                Some(Requirement::Service { name, event, when_down })
            }
            "path" => self.read(&fields, "path", |d, p, n| d.path(p, n)).map(Requirement::Path),
            "network" => {
                let aspects = NetworkAspect::ALL.map(|aspect| (aspect.name(), aspect));
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
                    let list = d.requirements(Use::Any, p, n, references)?;
                    d.not_empty(p, n, list)
                };
                self.read(&fields, "any", list).map(Requirement::Any)
            }
        }
    }

    fn when_down(&mut self, within: Use, event: ServiceEvent, fields: &Fields<'_, '_>) -> WhenDown {
        let words = [("ignore", WhenDown::Ignore), ("stop", WhenDown::Stop), ("restart", WhenDown::Restart)];
        let mut when_down = WhenDown::Ignore;
        self.set(fields, "whenDown", &mut when_down, |d, p, n| {
            let chosen = d.choice(p, n, &words)?;
            let refused = match (within, event) {
                (Use::When, _) => Some("when is asked once, at the start; write whenDown in depends"),
                (Use::Any, _) => Some("inside any another entry may do; write whenDown in an entry of its own"),
                (Use::Depends, ServiceEvent::Finished) => {
                    Some("what has finished does not run any more; write event: up or running, or leave whenDown out")
                }
                (Use::Depends, ServiceEvent::Down) => {
                    Some("this waits for the service to be down; write event: up or running, or leave whenDown out")
                }
                (Use::Depends, ServiceEvent::Up | ServiceEvent::Running) => None,
            };
            match refused {
                Some(text) => {
                    d.wrong(p, fields.position("whenDown"), text);
                    None
                }
                None => Some(chosen),
            }
        });
        when_down
    }

    fn not_empty<T>(&mut self, place: &Place<'_>, node: &Node, list: Vec<T>) -> Option<Vec<T>> {
        if matches!(&node.value, Value::Sequence(items) if items.is_empty()) {
            self.wrong(place, node.at, "this list is empty, so it could never hold");
            return None;
        }
        Some(list)
    }
}
