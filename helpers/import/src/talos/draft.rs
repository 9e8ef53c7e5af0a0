//! The service that a document becomes, while its keys are read.

use std::path::Path;
use std::time::Duration;

use kelson_spec::kernel::{ALL_CAPABILITIES, capability};
use kelson_spec::service::{ContainerDevice, Requirement, RestartPolicy, RestartSpec};

use super::document::{Document, Error, Kind};
use crate::finding::{Fate, Outcome};
use crate::format::Format;
use crate::unit_name::kelson_name;
use crate::yaml::Value;

/// The time after which Talos starts a service again.
const PAUSE: Duration = Duration::from_secs(5);

/// The files of Talos.
#[derive(Debug)]
pub enum Talos {}

impl Format for Talos {
    const FILES: &'static str = "documents of Talos";
    const OF_OTHERS: Option<&'static str> = None;
    type Context<'c> = Context<'c>;
}

pub type Draft<'c> = crate::container::Draft<'c, Talos>;
pub type Part = crate::part::Part<Talos>;

/// A document among all that are given.
#[derive(Debug)]
pub struct Context<'c> {
    pub document: &'c Document,
    pub documents: &'c [Document],
    /// Where the files of configuration documents are on the host.
    pub folder: &'c Path,
}

impl Context<'_> {
    /// Whether a document of this kind and name is given.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.documents.iter().any(|document| document.kind == kind && document.name() == name)
    }

    /// # Errors
    /// That a document which lacks something is no service, for Talos neither.
    pub fn refuse<T>(&self, at: Option<&Value>, message: &str) -> Result<T, Error> {
        let Document { file, value, .. } = self.document;
        Err(Error::At(file.clone(), at.map_or(value.line, |at| at.line), message.to_owned()))
    }

    /// The service of a document, before its keys are read.
    ///
    /// # Errors
    /// Where its name is none.
    pub fn draft(&self) -> Result<Draft<'_>, Error> {
        let name = self.document.name();
        let is_known = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '_');
        if name.is_empty() || !name.chars().all(is_known) {
            return self.refuse(
                self.document.value.get("name"),
                "the key name is missing, or has other letters than a-z, 0-9, - and _",
            );
        }
        let mut draft = Draft::of(self, &self.document.file, name, &kelson_name(name));
        draft.spec.restart = RestartSpec {
            policy: RestartPolicy::Forever,
            delay: PAUSE,
            max_delay: PAUSE,
            ..RestartSpec::default()
        };
        Ok(draft)
    }
}

/// Every capability that Talos gives: all but those that change the kernel or end the machine.
pub fn granted() -> u64 {
    let bit = |name: &str| capability(name).and_then(|number| 1_u64.checked_shl(number)).unwrap_or_default();
    ALL_CAPABILITIES & !(bit("sys_module") | bit("sys_boot"))
}

/// Gives exactly these capabilities.
pub fn give(draft: &mut Draft<'_>, mask: u64) {
    draft.spec.security.capabilities = Some(mask);
    draft.spec.security.ambient = mask;
}

pub fn name(draft: &mut Draft<'_>, _: &Value) -> Outcome {
    match draft.spec.name == draft.name {
        true => Outcome::as_table(),
        false => Outcome::approximated(format!(
            "the service is called {}: names of services have a-z, 0-9 and - alone, no - first or last",
            draft.spec.name
        )),
    }
}

pub fn wait(draft: &mut Draft<'_>, requirement: Requirement) {
    if !draft.spec.depends.contains(&requirement) {
        draft.spec.depends.push(requirement);
    }
}

/// Gives the container a device at its own place.
pub fn device(draft: &mut Draft<'_>, path: &str) {
    let (source, target) = (path.into(), path.into());
    let device = ContainerDevice { source, target, permissions: ContainerDevice::PERMISSIONS.to_owned() };
    if !draft.container.devices.contains(&device) {
        draft.container.devices.push(device);
    }
}

/// `NAME=VALUE` each.
pub fn environment(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let Some(lines) = value.texts().filter(|_| !matches!(value.content, crate::yaml::Kind::Text(_))) else {
        return Outcome::rejected("this is no list of NAME=VALUE");
    };
    lines
        .into_iter()
        .map(|line| match line.split_once('=') {
            Some((name, _)) if name == "inherit" || kelson_load::variable_mistake(name).is_some() => {
                Outcome::rejected(format!("{name:?} is no name of a variable that a service file can set"))
            }
            Some((name, value)) => {
                draft.set(name, value);
                Outcome::as_table()
            }
            None => Outcome::rejected(format!("{line:?} has no =")),
        })
        .collect()
}

/// Reads `true` or `false`.
pub fn switch(
    draft: &mut Draft<'_>,
    value: &Value,
    put: impl FnOnce(&mut Draft<'_>, bool) -> Outcome,
) -> Outcome {
    match value
        .text()
        .and_then(|text| if text.is_empty() { Some(false) } else { crate::values::boolean(text) })
    {
        Some(is_on) => put(draft, is_on),
        None => Outcome::rejected("this is neither true nor false"),
    }
}

/// Reads each item of a list by its table.
pub fn each(
    draft: &mut Draft<'_>,
    value: &Value,
    mut read: impl FnMut(&mut Draft<'_>, &Value) -> Outcome,
) -> Outcome {
    if value.items().is_empty() && !value.is_empty() {
        return Outcome::rejected("this is no list");
    }
    value.items().iter().map(|item| read(draft, item)).collect()
}

/// As [`each`], with a finding of its own for each item that is not kept.
pub fn each_judged(
    draft: &mut Draft<'_>,
    value: &Value,
    read: impl Fn(&mut Draft<'_>, &Value) -> Outcome,
) -> Outcome {
    each(draft, value, |draft, item| {
        let (fate, sentence) = read(draft, item).summary(Fate::Kept, "");
        if fate != Fate::Kept {
            draft.judge(item.line, (fate, sentence));
        }
        Outcome::as_table()
    })
}

/// The one key of an item that may have a single one.
pub fn only<'v>(item: &'v Value, keys: &str) -> Result<(&'v str, &'v Value), Outcome> {
    match item.entries() {
        [(key, value)] => Ok((key, value)),
        _ => Err(Outcome::rejected(format!("line {}: an entry has exactly one of {keys}", item.line))),
    }
}
