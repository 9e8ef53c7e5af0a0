//! What becomes of a key of a unit, by its row in the table.

use kelson_spec::near::near;

use crate::draft::Draft;
use crate::finding::{Fate, Finding};
use crate::key::{Key, Neutral};
use crate::keys;
use crate::settings::{Setting, Settings};
use crate::values;

pub fn finding(section: &str, key: &str, file: &str, line: u32, (fate, sentence): (Fate, String)) -> Finding {
    Finding { section: section.to_owned(), key: key.to_owned(), file: file.to_owned(), line, fate, sentence }
}

/// What is to be said of the lines of a unit: of those that systemd passes over too, and of each key what became of it.
pub fn all(
    draft: &mut Draft<'_>,
    settings: &Settings,
    judge: impl Fn(&mut Draft<'_>, &Setting) -> (Fate, String),
) -> Vec<Finding> {
    let passed = settings.passed.iter().map(|line| {
        finding("", "line", &line.file, line.line, (Fate::Approximated, line.mistake.to_string()))
    });
    let keys = settings.all.iter().map(|setting| {
        finding(&setting.section, &setting.key, &setting.file, setting.line, judge(draft, setting))
    });
    passed.chain(keys).collect()
}

/// What becomes of a key, by its row.
pub fn judged(draft: &mut Draft<'_>, setting: &Setting) -> (Fate, String) {
    if setting.section.starts_with("X-") || setting.key.starts_with("X-") {
        return (Fate::Kept, "for other programs: systemd does not read it either".to_owned());
    }
    let Some(key) = keys::find(&setting.section, &setting.key) else { return unknown(setting) };
    match key.read {
        Some(read) => read(draft, setting).summary(key.fate, key.sentence),
        None if key.fate == Fate::Rejected && is_neutral(key, setting) => {
            (Fate::Kept, "with this value nothing is lost".to_owned())
        }
        None => (key.fate, key.sentence.to_owned()),
    }
}

fn is_neutral(key: &Key, setting: &Setting) -> bool {
    let list = setting.list();
    // The last value counts, of a list all do; a key that is no list has no more than one that is not overridden.
    let all = |is: &dyn Fn(&str) -> bool| list.iter().all(|value| is(value));
    match key.neutral {
        Neutral::Empty => list.is_empty(),
        Neutral::No => values::boolean(setting.last()) == Some(false) || list.is_empty(),
        Neutral::Words(words) => all(&|value| words.contains(&value)),
    }
}

/// A key that no service unit of systemd 252 has.
fn unknown(setting: &Setting) -> (Fate, String) {
    let (section, name) = (&setting.section, &setting.key);
    let of_section = keys::PARTS.iter().filter(|part| part.section == section);
    let names: Vec<&str> = of_section.flat_map(|part| part.keys).map(|key| key.name).collect();
    if names.is_empty() {
        return (
            Fate::Rejected,
            format!("a service unit has no section [{section}]; what it asks for is lost"),
        );
    }
    let hint = near(name, names).map(|name| format!("; did its author mean {name}=?")).unwrap_or_default();
    (
        Fate::Rejected,
        format!("systemd 252 has no key {name}= in [{section}], so what it asks for is not known{hint}"),
    )
}
