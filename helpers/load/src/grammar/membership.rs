//! The ties of a service to others besides `depends`: `group`, `lifecycle`, `required`.

use super::mapping::{Mapping, keys};
use super::seen::Seen;
use super::values::{boolean, choice};
use crate::decode::{Decoder, MOST_MISTAKES};
use crate::member::{Member, Part, Ties};
use crate::tree::Node;
use kelson_spec::names::is_name;
use kelson_spec::near::near;
use kelson_spec::service::{Lifecycle, LifecycleHook, ServiceKind, ServiceSpec};

/// Checks the service's place in its group by the keys of `seen`. `kind`: `None` where the file's cannot be
/// read.
pub fn tie(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &ServiceSpec) {
    let lifecycle = match seen.has("lifecycle") {
        true => (!seen.is_wrong("lifecycle")).then_some(spec.lifecycle),
        false => misspelled(seen, "lifecycle").is_none().then(Lifecycle::default),
    };
    if seen.has("lifecycle") && !seen.has("group") && misspelled(seen, "group").is_none() {
        let text = "this is the part in a group, and the service is in none; write group: NAME too";
        seen.wrong_key(d, "lifecycle", text);
    }
    let named = seen.get("group").or_else(|| misspelled(seen, "group"));
    let member = named.and_then(|node| {
        node.scalar().filter(|group| is_name(group)).map(|group| Member {
            service: spec.name.clone(),
            group: group.to_owned(),
            part: lifecycle.as_ref().map_or(Part::Unknown, Part::of),
            file: spec.file.clone(),
            at: node.at,
        })
    });
    let required = seen.is_right("required").then_some(spec.required);
    d.ties = Ties { member, required };
}

/// The part in a group of a service of this kind; `None` where the file's cannot be read.
pub fn lifecycle(kind: Option<ServiceKind>) -> Mapping<Lifecycle> {
    let hooks = [
        ("prestart", LifecycleHook::Prestart),
        ("poststart", LifecycleHook::Poststart),
        ("poststop", LifecycleHook::Poststop),
    ];
    keys! {
        Mapping::new("lifecycle", Lifecycle::default);
        means "hook" hook = choice(hooks).optional(), "none",
            "`prestart`: before the mains. `poststart`: once they are up. `poststop`: once they are down";
        key "sidecar" sidecar = boolean(), "`true`: up before the mains are started, and stopped after them";
    }
    .strict()
    .check(move |d, seen, lifecycle| {
        if let Some((key, text)) = mistake(lifecycle, kind) {
            seen.wrong_key(d, key, text);
        }
    })
}

fn mistake(lifecycle: &Lifecycle, kind: Option<ServiceKind>) -> Option<(&'static str, &'static str)> {
    match (lifecycle.hook, lifecycle.sidecar, kind) {
        (Some(LifecycleHook::Poststop), true, _) => Some((
            "sidecar",
            "once the mains are down there is nobody to run beside; leave sidecar or hook out",
        )),
        (_, true, Some(ServiceKind::Oneshot)) => {
            Some(("sidecar", "a sidecar runs beside the mains; write type: service, or leave sidecar out"))
        }
        (Some(LifecycleHook::Prestart), false, Some(ServiceKind::Service)) => Some((
            "hook",
            "what goes before the mains has to end first; write type: oneshot, or sidecar: true for what runs on beside them",
        )),
        (Some(LifecycleHook::Poststop), false, Some(ServiceKind::Service)) => {
            Some(("hook", "what comes after the mains has to end; write type: oneshot"))
        }
        _ => None,
    }
}

/// The value of a key that is not known and was most likely meant to be `key`.
fn misspelled<'n>(seen: &Seen<'_, 'n>, key: &str) -> Option<&'n Node> {
    let known = seen.known;
    let meant = |found: &str| {
        !known.contains(&found) && (found.starts_with(key) || near(found, known.iter().copied()) == Some(key))
    };
    // A file of nothing but mistakes is not worth the search.
    let mut first = seen.entries.iter().take(MOST_MISTAKES);
    first.find(|entry| entry.key.scalar().is_some_and(meant)).map(|entry| &*entry.value)
}
