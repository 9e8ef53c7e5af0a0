//! Files of other programs as service files: units of systemd, and files of Docker Compose.
//!
//! Text goes in, a service file and findings come out: the crate reads no file and asks no host. [`keys`] is the table of
//! all keys of a service unit, and what becomes of each.
//!
//! A unit takes this path: [`Settings`] reads the fragment and its drop-ins, each key goes to the function of its row, which
//! writes into a [`Draft`], and that becomes the service file through the types of `kelson-spec`.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod attributes;
mod commands;
pub mod compose;
mod conditions;
mod confinement;
mod draft;
mod ends;
mod environment;
mod finding;
mod key;
mod keys;
mod lifecycle;
mod order;
mod other_unit;
pub mod page;
mod sandbox;
mod settings;
mod specifiers;
mod texts;
mod unit_file;
mod unit_name;
mod values;
mod view;
mod words;
mod written;

use kelson_load::Json;
use kelson_spec::near::near;

use draft::Draft;
use key::{Key, Neutral};
use settings::{Setting, Settings};
use unit_name::{UnitName, kelson_name};

pub use finding::{Fate, Finding};
pub use settings::Source;

/// A service unit as it lies on a disk.
#[derive(Debug, Clone)]
pub struct Unit<'t> {
    /// The name of its file: `web.service`, `web@.service`.
    pub name: &'t str,
    /// Of a template: the instance, as `systemd-escape` takes it or as it is in a name.
    pub instance: Option<&'t str>,
    /// The fragment, and the drop-ins in the order in which they count.
    pub sources: Vec<Source<'t>>,
    /// Values of specifiers that only the host knows.
    pub specifiers: Vec<(char, String)>,
}

/// A unit in Kelson's form.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// Of the service; its file is this and `.yaml`.
    pub name: String,
    pub file: Json,
    /// One for each key of the unit, in the order of the unit.
    pub findings: Vec<Finding>,
}

impl Translation {
    /// The worst that became of a key.
    pub fn fate(&self) -> Fate {
        self.findings.iter().map(|finding| finding.fate).max().unwrap_or_default()
    }
}

/// Why a unit is no service of Kelson at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not the name of a service unit; it ends in .service")]
    Name(String),
    #[error("{0} is a template; name its instance with --instance NAME")]
    Template(String),
    #[error("{0} is no template, and has no instances; leave --instance out")]
    NoTemplate(String),
    #[error("{0} is empty, which masks the unit: systemd does not start it")]
    Masked(String),
    #[error("{0} runs no program: it has no ExecStart= that can be read{1}")]
    NoCommand(String, String),
}

/// Translates a unit.
///
/// # Errors
/// Where there would be no service.
pub fn service(unit: &Unit<'_>) -> Result<Translation, Error> {
    let settings = Settings::read(unit.sources.iter().copied());
    let name = named(unit, &settings)?;
    if settings.all.is_empty() && settings.passed.is_empty() {
        return Err(Error::Masked(name.full()));
    }
    let service = kelson_name(&name.bare);
    let mut draft = Draft::new(&service, &settings, &name, &unit.specifiers);
    let mut findings = Vec::new();
    if service != name.bare {
        let sentence =
            format!("the service is called {service}: names of services have a-z, 0-9 and - alone");
        findings.push(finding("", "name", unit.name, 0, (Fate::Approximated, sentence)));
    }
    for passed in &settings.passed {
        let told = (Fate::Approximated, passed.mistake.to_string());
        findings.push(finding("", "line", &passed.file, passed.line, told));
    }
    // What a service is decides what other keys mean.
    if let Some(kind) = settings.get("Service", "Type") {
        lifecycle::kind(&mut draft, kind);
    }
    lifecycle::no_restart(&mut draft);
    for setting in &settings.all {
        let told = judged(&mut draft, setting);
        findings.push(finding(&setting.section, &setting.key, &setting.file, setting.line, told));
    }
    conditions::settle(&mut draft);
    if let kelson_spec::service::Workload::Process(process) = &draft.spec.workload
        && process.command.is_empty()
    {
        let start =
            findings.iter().find(|finding| finding.key == "ExecStart" && finding.fate == Fate::Rejected);
        let why = start.map(|finding| format!(": {}", finding.sentence)).unwrap_or_default();
        return Err(Error::NoCommand(name.full(), why));
    }
    sandbox::finish(&mut draft);
    Ok(Translation { name: service, file: draft.finished(), findings })
}

/// The name under which the unit runs.
fn named(unit: &Unit<'_>, settings: &Settings) -> Result<UnitName, Error> {
    let name = UnitName::new(unit.name).ok_or_else(|| Error::Name(unit.name.to_owned()))?;
    let of_file =
        settings.get("Install", "DefaultInstance").map(Setting::last).filter(|name| !name.is_empty());
    let instance = match (name.is_template(), unit.instance) {
        (true, instance) => {
            let instance = instance.or(of_file).filter(|instance| !instance.is_empty());
            Some(instance.ok_or_else(|| Error::Template(unit.name.to_owned()))?)
        }
        (false, Some(_)) => return Err(Error::NoTemplate(unit.name.to_owned())),
        (false, None) => None,
    };
    Ok(instance.map_or(name.clone(), |instance| name.of_instance(instance)))
}

fn finding(section: &str, key: &str, file: &str, line: u32, (fate, sentence): (Fate, String)) -> Finding {
    Finding { section: section.to_owned(), key: key.to_owned(), file: file.to_owned(), line, fate, sentence }
}

/// What becomes of a key, by its row.
fn judged(draft: &mut Draft<'_>, setting: &Setting) -> (Fate, String) {
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
