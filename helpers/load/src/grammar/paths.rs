//! `paths`: what starts a service with `start: onDemand`, besides its sockets.

use std::path::PathBuf;

use super::at::At;
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::seen::Seen;
use super::values::path;
use crate::decode::Decoder;
use kelson_spec::service::{PathEvent, PathTrigger, ServiceSpec, is_pattern};

const KINDS: [&str; 4] = ["exists", "notEmpty", "changed", "modified"];
const WHAT: &str = "a list of paths such as [{notEmpty: /var/spool/inbox}]";

pub fn paths() -> Codec<Vec<PathTrigger>> {
    const MOST: usize = PathTrigger::MOST;
    Mapping::codec(trigger).list_of(0..=MOST, WHAT).around(move |d, node, list| {
        d.at_most(node, MOST, |count| format!("these are {count} paths; a service has at most {MOST}"))?;
        list(d, node)
    })
}

fn trigger() -> Mapping<PathTrigger> {
    let mapping = keys! {
        Mapping::new("trigger", || PathTrigger { event: PathEvent::Exists, path: String::new() });
        alternative "exists" (of(PathEvent::Exists)) = perhaps_pattern(),
            "it is there; its last part may be a pattern: `/var/spool/inbox/*.job`";
        alternative "notEmpty" (of(PathEvent::NotEmpty)) = path(),
            "the folder has an entry that is neither hidden nor a backup (`x~`)";
        alternative "changed" (of(PathEvent::Changed)) = path(),
            "it came, went, was replaced, was closed after writing, or has other attributes; of a folder, one of its \
             entries";
        alternative "modified" (of(PathEvent::Modified)) = path(), "the same, and each write";
    };
    mapping.one_of(&KINDS)
}

fn of(event: PathEvent) -> At<PathTrigger, PathBuf> {
    At::new(
        move |trigger: &PathTrigger| (trigger.event == event).then(|| PathBuf::from(&trigger.path)),
        move |trigger, path: PathBuf| {
            *trigger = PathTrigger { event, path: path.to_string_lossy().into_owned() };
        },
    )
}

fn perhaps_pattern() -> Codec<PathBuf> {
    path().but(|path| {
        let folder = path.parent().is_some_and(|folder| is_pattern(&folder.to_string_lossy()));
        folder.then_some("a pattern stands in the last part of a path alone; name the folder")
    })
}

/// Notes mistakes that other keys make. The paths start it, and the boot does not.
pub fn check(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &mut ServiceSpec) {
    if spec.paths.is_empty() {
        return;
    }
    if spec.schedule().is_some() {
        seen.wrong_key(d, "paths", "the schedule starts it; leave schedule or paths out");
    } else if !spec.on_demand && seen.has("start") && !seen.is_wrong("start") {
        seen.wrong_value(d, "start", "the paths start it; write onDemand, or leave start out");
    }
    spec.on_demand = true;
}
