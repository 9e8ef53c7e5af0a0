//! What ties a service to others besides `depends`: `group`, `lifecycle`, `required`.

use std::path::Path;

use super::service::KEYS;
use super::{Decoder, Fields, Place, scalar};
use crate::folder::MOST_MISTAKES;
use crate::groups::{Member, Part};
use crate::tree::{Node, Position, Value};
use kelson_spec::near::near;
use kelson_spec::service::{Lifecycle, LifecycleHook, ServiceKind, ServiceSpec};

/// What others must know of a service though its file has a mistake.
#[derive(Debug, Default)]
pub struct Ties {
    pub member: Option<Member>,
    /// `None`: nothing that can be read.
    pub required: Option<bool>,
}

impl Ties {
    /// The ties of a file that is not YAML, from the lines that look like them: services must not start without what may go
    /// before them because of a tab in its file.
    pub fn guessed(service: &str, file: &Path, text: &str) -> Self {
        let value = |key: &str| {
            text.lines().zip(1_u32..).find_map(|(line, number)| {
                let value = line.strip_prefix(key)?.strip_prefix(':')?;
                let value = value.split(" #").next()?.trim().trim_matches(['"', '\'']);
                Some((value, number))
            })
        };
        let member = value("group").filter(|(group, _)| scalar::is_name(group)).map(|(group, line)| Member {
            service: service.to_owned(),
            group: group.to_owned(),
            part: Part::Unknown,
            file: file.to_owned(),
            at: Position { line, column: 1 },
        });
        let required = value("required").and_then(|(value, _)| value.parse().ok());
        Ties { member, required }
    }
}

impl Decoder<'_> {
    /// `kind`: `None` where the file's cannot be read.
    pub(super) fn ties(
        &mut self,
        fields: &Fields<'_, '_>,
        kind: Option<ServiceKind>,
        spec: &mut ServiceSpec,
    ) -> Ties {
        let required = self.read(fields, "required", |d, p, n| d.boolean(p, n));
        spec.required = required.unwrap_or(true);
        spec.group = self.read(fields, "group", |d, p, n| d.name(p, n));
        let lifecycle = if fields.has("lifecycle") {
            self.read(fields, "lifecycle", |d, p, n| d.lifecycle(kind, p, n))
        } else {
            misspelled(fields, "lifecycle").is_none().then(Lifecycle::default)
        };
        if fields.has("lifecycle") && !fields.has("group") && misspelled(fields, "group").is_none() {
            let text = "this is the part in a group, and the service is in none; write group: NAME too";
            self.wrong(&Place::Key(fields.place, "lifecycle"), fields.position("lifecycle"), text);
        }
        spec.lifecycle = lifecycle.unwrap_or_default();
        let named = fields.get("group").or_else(|| misspelled(fields, "group"));
        let member = named.and_then(|node| match &node.value {
            Value::Scalar(group) if scalar::is_name(group) => Some(Member {
                service: spec.name.clone(),
                group: group.clone(),
                part: lifecycle.as_ref().map_or(Part::Unknown, Part::of),
                file: spec.file.clone(),
                at: node.at,
            }),
            _ => None,
        });
        Ties { member, required }
    }

    /// `None` only where the part itself cannot be read.
    fn lifecycle(&mut self, kind: Option<ServiceKind>, place: &Place<'_>, node: &Node) -> Option<Lifecycle> {
        let before = self.diagnostics.len();
        let fields = self.fields(place, node, &["hook", "sidecar"])?;
        let hooks = [
            ("prestart", LifecycleHook::Prestart),
            ("poststart", LifecycleHook::Poststart),
            ("poststop", LifecycleHook::Poststop),
        ];
        let hook = self.read(&fields, "hook", |d, p, n| d.choice(p, n, &hooks));
        let sidecar = self.read(&fields, "sidecar", |d, p, n| d.boolean(p, n));
        if self.diagnostics.len() > before {
            return None;
        }
        let lifecycle = Lifecycle { hook, sidecar: sidecar.unwrap_or_default() };
        let mistake = match (lifecycle.hook, lifecycle.sidecar, kind) {
            (Some(LifecycleHook::Poststop), true, _) => Some((
                "sidecar",
                "once the mains are down there is nobody to run beside; leave sidecar or hook out",
            )),
            (_, true, Some(ServiceKind::Oneshot)) => Some((
                "sidecar",
                "a sidecar runs beside the mains; write type: service, or leave sidecar out",
            )),
            (Some(LifecycleHook::Prestart), false, Some(ServiceKind::Service)) => Some((
                "hook",
                "what goes before the mains has to end first; write type: oneshot, or sidecar: true for what runs on beside them",
            )),
            (Some(LifecycleHook::Poststop), false, Some(ServiceKind::Service)) => {
                Some(("hook", "what comes after the mains has to end; write type: oneshot"))
            }
            _ => None,
        };
        if let Some((key, text)) = mistake {
            self.wrong(&Place::Key(place, key), fields.position(key), text);
        }
        Some(lifecycle)
    }
}

/// The value of a key that is not known and was most likely meant to be `key`.
fn misspelled<'n>(fields: &Fields<'_, 'n>, key: &str) -> Option<&'n Node> {
    let meant =
        |found: &str| !KEYS.contains(&found) && (found.starts_with(key) || near(found, KEYS) == Some(key));
    // A file of nothing but mistakes is not worth the search.
    let entry = fields.entries.iter().take(MOST_MISTAKES).find(|entry| match &entry.key.value {
        Value::Scalar(found) => meant(found),
        _ => false,
    });
    entry.map(|entry| &*entry.value)
}
