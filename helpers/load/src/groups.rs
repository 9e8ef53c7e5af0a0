//! Services of one group: the part that each has in it becomes what it waits for.
//!
//! Mains wait until the prestart one-shots have finished and the sidecars are up, poststart members until the mains are up,
//! poststop members until the mains are down. Those are entries of `depends` like any others, so the order of starts and of
//! stops, cycles, `why` and `graph` need to know nothing of groups.
//!
//! A member whose file has a mistake keeps its part, as far as that can be read: who waits for it waits on.

use std::collections::BTreeMap;

use crate::decode::{Decoded, diagnostic};
use crate::member::{Member, Part};
use crate::tree::Position;
use kelson_spec::loaded::Diagnostic;
use kelson_spec::service::{Requirement, ServiceEvent};

/// The most members of one group: each main waits for each of those before it, so they multiply.
const MOST_MEMBERS: usize = 100;

type Groups<'m> = BTreeMap<&'m str, Vec<&'m Member>>;

fn groups(members: &[Member]) -> Groups<'_> {
    let mut groups = Groups::new();
    for member in members {
        groups.entry(&member.group).or_default().push(member);
    }
    groups
}

/// Returns the mistakes of groups as a whole; each makes a member faulty.
pub fn mistakes(members: &[Member]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (group, members) in groups(members) {
        // One whose part cannot be read may be the main.
        let has_main = members.iter().any(|member| matches!(member.part, Part::Main | Part::Unknown));
        let message = if members.len() > MOST_MEMBERS {
            format!(
                "group: {} services are in group {group}; a group has at most {MOST_MEMBERS}",
                members.len()
            )
        } else if !has_main {
            format!(
                "group: nobody in group {group} is a main, around which the others are ordered; put a service without lifecycle into it"
            )
        } else {
            continue;
        };
        let mistake =
            |member: &Member| diagnostic(&member.file, member.at, Some(&member.service), message.as_str());
        found.extend(members.into_iter().map(mistake));
    }
    found
}

/// Makes members wait for each other, unless their files say so themselves.
pub fn order(services: &mut [Decoded], members: &[Member]) {
    let groups = groups(members);
    for decoded in services {
        let Some(group) = decoded.spec.group.as_deref().and_then(|group| groups.get(group)) else { continue };
        let own = Part::of(&decoded.spec.lifecycle);
        let wanted = group.iter().filter_map(|other| {
            let event = match own {
                Part::Main => other.part.before_mains(),
                Part::Poststart => Some(ServiceEvent::Up).filter(|_| other.part == Part::Main),
                Part::Poststop => Some(ServiceEvent::Down).filter(|_| other.part == Part::Main),
                Part::Prestart | Part::Sidecar | Part::Unknown => None,
            };
            event.map(|event| (other.service.as_str(), event))
        });
        let written = &decoded.spec.depends;
        let new = wanted.filter(|(name, event)| !written.iter().any(|entry| entry.is_for(name, *event)));
        let new: Vec<Requirement> = new.map(|(name, event)| Requirement::service(name, event)).collect();
        let at = group.iter().find(|member| member.service == decoded.spec.name).map(|member| member.at);
        // First, as positions stand in the order of a walk.
        let places = vec![at.unwrap_or(Position::START); new.len()];
        decoded.references.splice(0..0, places);
        decoded.by_group = new.len();
        decoded.spec.depends.splice(0..0, new);
    }
}
