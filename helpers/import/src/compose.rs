//! Files of Docker Compose, as the Compose specification describes them.
//!
//! Each service becomes a container with an address of its own, which the others reach by its name.

mod draft;
mod health;
pub mod keys;
mod limits;
mod network;
mod order;
mod program;
mod storage;
mod variables;

use draft::Context;
pub use draft::File;
use keys::{SERVICE, TOP};
use variables::{Lookup, replaced};

use crate::Translation;
use crate::finding::{Fate, Finding};
use crate::unit_name::kelson_name;
use crate::yaml::{Unreadable, Value};

/// What becomes of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    /// In the order of the file.
    pub services: Vec<Translation>,
    /// Of the file as a whole.
    pub findings: Vec<Finding>,
}

/// Why a file has no services.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0}: the YAML parser failed on it; simplify it")]
    Parser(String),
    #[error("{0}:{1}: {2}")]
    Syntax(String, u32, String),
    #[error("{0}: it has no mapping services")]
    NoServices(String),
}

struct Given<'g> {
    given: &'g [(String, String)],
    missing: Vec<String>,
}

impl Lookup for Given<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn missing(&mut self, name: &str) {
        if !self.missing.iter().any(|known| known == name) {
            self.missing.push(name.to_owned());
        }
    }
}

/// Translates a file.
///
/// # Errors
/// Where it cannot be read, or has no services.
pub fn project(file: &File<'_>) -> Result<Project, Error> {
    let File { name, text, folder, project, variables } = *file;
    let (name, text, project) = (name.to_owned(), text.to_owned(), project.to_owned());
    let (folder, variables) = (folder.to_owned(), variables.to_owned());
    // The YAML parser is not ours.
    kelson_load::guarded(move || {
        translated(&File {
            name: &name,
            text: &text,
            folder: &folder,
            project: &project,
            variables: &variables,
        })
    })
}

fn translated(file: &File<'_>) -> Result<Project, Error> {
    let name = || file.name.to_owned();
    let (root, mistakes) = kelson_load::parse(file.text).ok_or_else(|| Error::Parser(name()))?;
    if let Some(mistake) = mistakes.into_iter().next() {
        return Err(Error::Syntax(name(), mistake.at.line, mistake.message));
    }
    let mut lookup = Given { given: file.variables, missing: Vec::new() };
    let root = root.ok_or_else(|| Error::NoServices(name()))?;
    let root = Value::new(&root, &mut |text| replaced(text, &mut lookup))
        .map_err(|Unreadable { line, why }| Error::Syntax(name(), line, why.to_string()))?;
    let own = root.get("name").and_then(Value::text).filter(|name| !name.is_empty());
    let file = File { project: own.unwrap_or(file.project), ..*file };
    let context = Context { file, root: &root };
    if context.services().is_empty() {
        return Err(Error::NoServices(name()));
    }
    let mut of_file = draft::draft(&context, "", "compose");
    TOP.read(&mut of_file, &root);
    for variable in lookup.missing {
        let sentence =
            format!("{variable} is not set, and empty: give its value with --variable {variable}=VALUE");
        of_file.find("variables", 0, Fate::Approximated, sentence);
    }
    let services = context.services().iter().map(|(name, value)| service(&context, name, value)).collect();
    Ok(Project { services, findings: of_file.findings })
}

fn service(context: &Context<'_>, name: &str, value: &Value) -> Translation {
    let service = kelson_name(name);
    let mut draft = draft::draft(context, name, &service);
    if service != name {
        let sentence = format!("the service is called {service}, and others reach it by that name alone");
        draft.find("name", value.line, Fate::Approximated, sentence);
    }
    SERVICE.read(&mut draft, value);
    if draft.container.image.is_empty() {
        let sentence = "it has no image, and the service file needs one".to_owned();
        draft.find("image", value.line, Fate::Rejected, sentence);
    }
    let (file, findings) = draft.finished();
    Translation { name: service, file, beside: Vec::new(), findings }
}
