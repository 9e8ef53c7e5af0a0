//! Files of other programs as service files: units of systemd, files of Docker Compose, and extension services of Talos.
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
mod container;
mod devices;
mod draft;
mod dynamic_user;
mod ends;
mod environment;
mod facts;
mod finding;
mod format;
mod input;
mod judgement;
mod key;
mod keys;
mod lifecycle;
mod order;
mod other_unit;
mod output;
pub mod page;
mod part;
mod part_unit;
mod paths;
mod sandbox;
mod settings;
mod socket;
mod socket_units;
mod sockets;
mod specifiers;
pub mod talos;
mod texts;
mod timers;
mod unit_file;
mod unit_name;
mod values;
mod view;
mod words;
mod written;
mod yaml;

use kelson_load::Json;

use draft::{Before, Draft};
use judgement::{finding, judged};
use settings::{Setting, Settings};
use unit_name::{UnitName, kelson_name};

pub use finding::{Fate, Finding};
pub use part_unit::PartUnit;
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

impl Unit<'_> {
    /// The socket units that it names in `Sockets=`.
    pub fn sockets(&self) -> Vec<String> {
        let settings = Settings::read(self.sources.iter().copied());
        settings.units("Service", "Sockets").into_iter().map(str::to_owned).collect()
    }
}

/// A unit in Kelson's form.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// Of the service; its file is this and `.yaml`.
    pub name: String,
    pub file: Json,
    /// One-shots that it waits for: the programs before the sockets of its socket units.
    pub beside: Vec<Beside>,
    /// One for each key of the unit, in the order of the unit.
    pub findings: Vec<Finding>,
}

/// A further service that a unit becomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    pub name: String,
    pub file: Json,
}

impl Translation {
    /// The service files, each with the name of its service.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Json)> {
        let beside = self.beside.iter().map(|one| (one.name.as_str(), &one.file));
        std::iter::once((self.name.as_str(), &self.file)).chain(beside)
    }

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
    service_with(unit, &[])
}

/// Translates a unit with its socket units, timer units and path units.
///
/// # Errors
/// Where there would be no service.
pub fn service_with(unit: &Unit<'_>, parts: &[PartUnit<'_>]) -> Result<Translation, Error> {
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
    // What a service is decides what other keys mean.
    if let Some(kind) = settings.get("Service", "Type") {
        lifecycle::kind(&mut draft, kind);
    }
    lifecycle::no_restart(&mut draft);
    let of_kind = |kind: &str| -> Vec<PartUnit<'_>> {
        parts.iter().filter(|part| part.name.ends_with(kind)).cloned().collect()
    };
    let (sockets, timers, paths) = (of_kind(".socket"), of_kind(".timer"), of_kind(".path"));
    draft.given_sockets = sockets.iter().map(|socket| socket.name.to_owned()).collect();
    findings.extend(judgement::all(&mut draft, &settings, judged));
    conditions::settle(&mut draft);
    findings.extend(socket_units::translate(&mut draft, &sockets));
    findings.extend(timers::translate(&mut draft, &timers));
    findings.extend(paths::translate(&mut draft, &paths));
    let is_stop_alone = draft.is_oneshot()
        && settings.service_list("ExecStart").is_empty()
        && !settings.service_list("ExecStop").is_empty();
    if let kelson_spec::service::Workload::Process(process) = &mut draft.spec.workload
        && process.command.is_empty()
        && is_stop_alone
    {
        process.command = vec!["/bin/true".to_owned()];
    }
    if let kelson_spec::service::Workload::Process(process) = &draft.spec.workload
        && process.command.is_empty()
    {
        let start =
            findings.iter().find(|finding| finding.key == "ExecStart" && finding.fate == Fate::Rejected);
        let why = start.map(|finding| format!(": {}", finding.sentence)).unwrap_or_default();
        return Err(Error::NoCommand(name.full(), why));
    }
    sandbox::finish(&mut draft);
    let beside = draft.beside.drain(..).filter_map(|one| before_sockets(&one)).collect();
    Ok(Translation { name: service, file: draft.finished(), beside, findings })
}

/// The one-shot before the sockets of a socket unit.
fn before_sockets(before: &Before) -> Option<Beside> {
    let sources = vec![Source { name: &before.source, text: &before.text }];
    let unit = Unit { name: &before.unit, instance: None, sources, specifiers: Vec::new() };
    service(&unit).ok().map(|done| Beside { name: done.name, file: done.file })
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
