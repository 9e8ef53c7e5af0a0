//! Extension services of Talos, with their configuration documents, and its `ContainerConfig`.
//!
//! Each becomes a container. The files of one call are read together: an `ExtensionServiceConfig` counts for the extension
//! service of its name, in whichever file it is.

mod bounds;
mod configuration;
mod container;
mod depends;
mod document;
mod draft;
mod extension;
pub mod keys;
mod mounts;
mod service;

use std::path::Path;

use crate::Translation;
use crate::finding::{Fate, Finding};
use crate::judgement::finding;
pub use configuration::ConfigFile;
use document::{Document, Kind};
pub use document::{Error, File};
use draft::Context;

/// What becomes of files.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Project {
    /// The services, each with the name of its file.
    pub services: Vec<(String, Result<Translation, Error>)>,
    /// Those of `ExtensionServiceConfig` documents, which containers see.
    pub files: Vec<ConfigFile>,
    /// Of documents that are no services.
    pub findings: Vec<Finding>,
}

/// Translates files; `folder` is where the files of configuration documents are on the host.
pub fn project(files: &[File<'_>], folder: &Path) -> Project {
    let mut documents: Vec<Document> = Vec::new();
    let mut done = Project::default();
    for file in files {
        match document::all(file) {
            Ok(found) => documents.extend(found),
            Err(error) => done.services.push((file.name.to_owned(), Err(error))),
        }
    }
    for document in &documents {
        let context = Context { document, documents: &documents, folder };
        let translated = match document.kind {
            Kind::Extension => service::extension(&context),
            Kind::Container => service::container(&context),
            Kind::Configuration => {
                done.files.extend(configuration::files(&context));
                done.findings.extend(without_service(document, &documents));
                continue;
            }
            Kind::Other => {
                done.findings.push(other(document));
                continue;
            }
        };
        done.services.push((document.file.clone(), translated));
    }
    done
}

/// The finding about a configuration document whose service is not among the files.
fn without_service(document: &Document, documents: &[Document]) -> Option<Finding> {
    let is_given =
        documents.iter().any(|other| other.kind == Kind::Extension && other.name() == document.name());
    let sentence = format!(
        "it configures the extension service {:?}, which is not among the files: name the file of the service too",
        document.name()
    );
    (!is_given).then(|| finding("", "kind", &document.file, document.value.line, (Fate::Rejected, sentence)))
}

fn other(document: &Document) -> Finding {
    let sentence = match document.value.get("kind").and_then(|kind| kind.text()) {
        Some(kind) => {
            format!("a document of kind {kind:?} is no service; write what it says into the machine file")
        }
        None => {
            "the machine configuration is no service; write what it says into the machine file".to_owned()
        }
    };
    finding("", "kind", &document.file, document.value.line, (Fate::Rejected, sentence))
}
