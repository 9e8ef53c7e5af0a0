//! Units that are a part of a service in Kelson: its socket units, timer units and path units.

use crate::conditions;
use crate::draft::Draft;
use crate::finding::{Fate, Finding};
use crate::judgement;
use crate::keys;
use crate::settings::{Setting, Settings, Source};
use crate::values::boolean;

/// The ends of their names.
const KINDS: [&str; 3] = [".socket", ".timer", ".path"];

/// A socket, timer or path unit as it lies on a disk.
#[derive(Debug, Clone)]
pub struct PartUnit<'t> {
    /// The name of its file: `web.socket`.
    pub name: &'t str,
    /// The fragment, and the drop-ins in the order in which they count.
    pub sources: Vec<Source<'t>>,
}

impl PartUnit<'_> {
    /// Whether a unit of this name is a part of a service.
    pub fn is(name: &str) -> bool {
        KINDS.iter().any(|end| name.ends_with(end))
    }

    pub fn settings(&self) -> Settings {
        Settings::read(self.sources.iter().copied())
    }

    /// The service unit that it starts: that of its own name, unless it names another; a template, where each connection has
    /// an instance of its own.
    pub fn service(&self) -> String {
        let settings = self.settings();
        let last = |section, key| settings.get(section, key).map(Setting::last);
        let template = if last("Socket", "Accept").and_then(boolean) == Some(true) { "@" } else { "" };
        let named = last("Socket", "Service")
            .or(last("Timer", "Unit"))
            .or(last("Path", "Unit"))
            .filter(|name| !name.is_empty());
        let own = || {
            let bare = KINDS.iter().find_map(|end| self.name.strip_suffix(end));
            bare.map(|bare| format!("{bare}{template}.service"))
        };
        named.map(str::to_owned).or_else(own).unwrap_or_default()
    }
}

/// Reads the keys of one into the draft.
pub fn judged(draft: &mut Draft<'_>, settings: &Settings, own: &str) -> Vec<Finding> {
    let findings = judgement::all(draft, settings, |draft, setting| of_key(draft, setting, own));
    // Its alternatives are none of the service's.
    conditions::settle(draft);
    findings
}

fn of_key(draft: &mut Draft<'_>, setting: &Setting, own: &str) -> (Fate, String) {
    let name = setting.key.as_str();
    let kept = |why: &str| (Fate::Kept, why.to_owned());
    match (setting.section.as_str(), own) {
        ("Unit", _) if name.starts_with("Condition") || name.starts_with("Assert") => {
            let (fate, sentence) = judgement::judged(draft, setting);
            (fate.max(Fate::Approximated), format!("it counts for the service as a whole: {sentence}"))
        }
        ("Unit", "Socket") if keys::find("Unit", name).is_some() => {
            kept("the sockets are made once the conditions of the service hold, and others find them then")
        }
        ("Unit", "Timer") if keys::find("Unit", name).is_some() => kept(
            "the schedule counts from the boot on, and the conditions of the service hold for its starts",
        ),
        ("Unit", "Path") if keys::find("Unit", name).is_some() => {
            kept("the paths are watched once the conditions of the service hold")
        }
        ("Install", "Path") => kept("the paths are watched from the boot on"),
        ("Install", "Socket") => kept("`start: onDemand`, unless the boot starts the service itself"),
        ("Install", "Timer") => kept("the schedule counts from the boot on"),
        ("Socket", "Socket")
            if keys::find("Socket", name).is_none() && keys::find("Service", name).is_some() =>
        {
            match draft.socket.programs.is_empty() {
                true => kept("the socket runs no program of its own"),
                false => {
                    (Fate::Rejected, "the programs before the socket run without it, as root".to_owned())
                }
            }
        }
        _ => judgement::judged(draft, setting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_service_is_the_one_that_systemd_starts() {
        for (name, text, service) in [
            ("web.socket", "[Socket]\nListenStream=80\n", "web.service"),
            ("web.socket", "[Socket]\nAccept=no\n", "web.service"),
            ("web.socket", "[Socket]\nAccept=yes\n", "web@.service"),
            ("web.socket", "[Socket]\nService=shop.service\n", "shop.service"),
            ("web.timer", "[Timer]\nOnCalendar=daily\n", "web.service"),
            ("web.timer", "[Timer]\nUnit=shop.service\n", "shop.service"),
            ("web.timer", "[Timer]\nUnit=\n", "web.service"),
            ("web.path", "[Path]\nPathExists=/a\n", "web.service"),
            ("web.path", "[Path]\nUnit=shop.service\n", "shop.service"),
        ] {
            let sources = vec![Source { name, text }];
            assert_eq!(PartUnit { name, sources }.service(), service);
        }
    }
}
