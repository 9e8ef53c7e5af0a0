//! The first line: which host this is and how it stands.

use std::time::SystemTime;

use kelson_proto::v1::BootResponse;

use super::text::{Text, external, wide};
use crate::commands::services::is_idle;
use crate::dashboard::model::{Link, Model};
use crate::output::time::{age, relative};
use crate::output::{Tone, fit};

/// Two spaces between what it tells.
pub fn row(model: &Model, columns: usize, now: SystemTime) -> Text {
    let mut facts = Text::new();
    if let Some(version) = &model.version {
        facts.push(external(Tone::Strong, &version.hostname));
        facts.push(external(Tone::Plain, &version.mode));
        facts.push(external(Tone::Plain, &format!("Kelson {}", version.version)));
        match (model.boot.as_ref().and_then(booting), age(&version.uptime, &version.started, now)) {
            (Some(phase), _) => facts.push(external(Tone::Busy, &format!("booting: {phase}"))),
            (None, Some(uptime)) => facts.push((Tone::Plain, format!("for {}", relative(uptime)))),
            (None, None) => {}
        }
    }
    let up = model.services.iter().filter(|service| service.up).count();
    let not = model.services.iter().filter(|service| !service.up && !is_idle(service)).count();
    facts.push((if not == 0 { Tone::Good } else { Tone::Waiting }, format!("{up} up, {not} not")));
    if !model.filter.is_empty() {
        facts.push(external(Tone::Busy, &format!("/{}", model.filter)));
    }
    let link = match &model.link {
        Link::Connected => (Tone::Good, "connected".to_owned()),
        Link::Lost(_) => (Tone::Bad, "not connected".to_owned()),
    };
    let mut room = columns.saturating_sub(link.1.len());
    let mut row = Text::new();
    for (tone, fact) in facts {
        let fact = fit(&fact, room.saturating_sub(2)).into_owned();
        room = room.saturating_sub(wide(&vec![(tone, fact.clone())]) + 2);
        row.extend([(tone, fact), (Tone::Plain, "  ".to_owned())]);
    }
    row.extend([(Tone::Plain, " ".repeat(room)), link]);
    row
}

/// The phase of the boot, while it is not over.
fn booting(boot: &BootResponse) -> Option<&str> {
    if boot.total.is_some() {
        return None;
    }
    let phase = boot.phases.iter().rfind(|phase| phase.duration.is_none());
    // The last thing it does.
    Some(phase.map_or("services", |phase| phase.name.as_str())).filter(|_| !boot.phases.is_empty())
}
