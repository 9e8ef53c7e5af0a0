//! The path units of a service: they become its `paths`.

use kelson_spec::service::{PathEvent, PathTrigger, StartMode, is_pattern};

use crate::draft::Draft;
use crate::finding::{Fate, Finding, Outcome};
use crate::judgement::finding;
use crate::part_unit::{self, PartUnit};
use crate::settings::Setting;
use crate::socket_units::on_demand;

/// Translates the path units of a service, and says of each of their keys what became of it.
pub fn translate(draft: &mut Draft<'_>, units: &[PartUnit<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for unit in units {
        findings.extend(part_unit::judged(draft, &unit.settings(), "Path"));
    }
    let Some(unit) = units.first().filter(|_| !draft.spec.paths.is_empty()) else { return findings };
    if draft.spec.schedule().is_some() {
        draft.spec.paths.clear();
        let loss = "the schedule starts the service, and so no path can".to_owned();
        findings.push(finding("Path", "Unit", unit.name, 0, (Fate::Rejected, loss)));
        return findings;
    }
    if draft.spec.start == StartMode::Auto && !draft.spec.on_demand {
        let change = (Fate::Approximated, "the paths start the service, and the boot does not".to_owned());
        findings.push(finding("Install", "WantedBy", unit.name, 0, change));
    }
    on_demand(draft);
    findings
}

/// The paths of one key, of this kind.
pub fn triggers(draft: &mut Draft<'_>, setting: &Setting, event: PathEvent) -> Outcome {
    let one = |value: &String| {
        let path = match draft.expanded(value) {
            Ok(path) => path,
            Err(wrong) => return wrong,
        };
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !path.starts_with('/') {
            return Outcome::rejected(format!("{path} is no path from the root, and systemd passes over it"));
        }
        if event == PathEvent::Exists && is_pattern(folder) {
            return Outcome::rejected(format!("{path}: a pattern stands in the last part of a path alone"));
        }
        if draft.spec.paths.len() >= PathTrigger::MOST {
            return Outcome::rejected(format!("{path}: a service has {} paths at most", PathTrigger::MOST));
        }
        draft.spec.paths.push(PathTrigger { event, path });
        Outcome::as_table()
    };
    setting.list().to_vec().iter().map(one).collect()
}

pub fn exists(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.list().iter().any(|path| is_pattern(path)) {
        true => Outcome::rejected("Kelson takes such a path for a pattern"),
        false => triggers(draft, setting, PathEvent::Exists),
    }
}
