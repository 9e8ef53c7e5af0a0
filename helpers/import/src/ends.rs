//! Ends of a run that count as success or decide about a restart, and what starts at the end of a service.

use kelson_spec::kernel::parse_signal;
use kelson_spec::service::ExitMatch;

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::order::each;
use crate::other_unit::{Other, other};
use crate::settings::Setting;

/// Names of exit statuses: sysexits(3), and those of the C library.
const NAMES: [(&str, u8); 17] = [
    ("SUCCESS", 0),
    ("FAILURE", 1),
    ("USAGE", 64),
    ("DATAERR", 65),
    ("NOINPUT", 66),
    ("NOUSER", 67),
    ("NOHOST", 68),
    ("UNAVAILABLE", 69),
    ("SOFTWARE", 70),
    ("OSERR", 71),
    ("OSFILE", 72),
    ("CANTCREAT", 73),
    ("IOERR", 74),
    ("TEMPFAIL", 75),
    ("PROTOCOL", 76),
    ("NOPERM", 77),
    ("CONFIG", 78),
];

/// The ends that a key names, and what it names that is none.
fn ends(setting: &Setting) -> (Vec<ExitMatch>, Outcome) {
    let (mut found, mut outcome) = (Vec::new(), Outcome::as_table());
    for word in setting.list().iter().flat_map(|value| value.split_ascii_whitespace()) {
        let status = word
            .parse::<u8>()
            .ok()
            .or_else(|| NAMES.iter().find(|(name, _)| *name == word).map(|(_, status)| *status));
        let signal =
            || parse_signal(word).ok().and_then(|signal| u8::try_from(signal).ok()).map(ExitMatch::Signal);
        match status.map(ExitMatch::Status).or_else(signal) {
            Some(end) if found.contains(&end) => {}
            Some(end) => found.push(end),
            None => {
                outcome = outcome
                    .and(Outcome::rejected(format!("{word} is no exit status or signal that Kelson knows")));
            }
        }
    }
    (found, outcome)
}

pub fn success(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (ends, outcome) = ends(setting);
    draft.spec.restart.success = ends.into_iter().filter(|end| *end != ExitMatch::Status(0)).collect();
    outcome
}

pub fn prevent(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (ends, outcome) = ends(setting);
    draft.spec.restart.prevent_on = ends;
    outcome
}

pub fn force(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (ends, outcome) = ends(setting);
    draft.spec.restart.force_on = ends;
    outcome
}

pub fn on_failure(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    followed(draft, setting, |draft| &mut draft.spec.on_failure)
}

pub fn on_success(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    followed(draft, setting, |draft| &mut draft.spec.on_success)
}

/// Names services that start at its end.
fn followed(
    draft: &mut Draft<'_>,
    setting: &Setting,
    names: for<'d> fn(&'d mut Draft<'_>) -> &'d mut Vec<String>,
) -> Outcome {
    each(draft, setting, |draft, unit| match other(unit) {
        Other::Service(name) if name != draft.spec.name => {
            if !names(draft).contains(&name) {
                names(draft).push(name);
            }
            Outcome::as_table()
        }
        _ => Outcome::rejected(format!("{unit} does not start then; only a service can")),
    })
}
