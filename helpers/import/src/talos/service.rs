//! A document as a service: what Talos does without a word of it, and then its keys.

use kelson_spec::service::ContainerNetwork;

use super::bounds::restart_policy;
use super::document::{Document, Error, Kind};
use super::draft::{Context, Draft, give, granted};
use super::extension::program as program_of;
use super::keys::{CONFIGURATION, CONTAINER_CONFIG, EXTENSION};
use crate::Translation;
use crate::yaml::Value;

/// How much sooner others are ended where memory is short.
const OOM_SCORE: i16 = -600;

/// An extension service.
///
/// # Errors
/// Where Talos refuses the file, too.
pub fn extension(context: &Context<'_>) -> Result<Translation, Error> {
    let value = &context.document.value;
    let mut draft = context.draft()?;
    let program = value.get("container").and_then(|container| container.get("entrypoint"));
    if program.and_then(Value::text).and_then(program_of).is_none() {
        return context.refuse(
            program.or(value.get("container")),
            "the key container.entrypoint is missing, or names no program of the service",
        );
    }
    let restart = value.get("restart");
    if restart.and_then(Value::text).and_then(restart_policy).is_none() {
        return context
            .refuse(restart, "the key restart is missing, or is not always, never or untilSuccess");
    }
    draft.spec.security.read_only_root = true;
    draft.spec.attributes.oom_score = Some(OOM_SCORE);
    give(&mut draft, granted());
    EXTENSION.read(&mut draft, value);
    let own = |document: &&Document| {
        document.kind == Kind::Configuration && document.name() == context.document.name()
    };
    for document in context.documents.iter().filter(own) {
        configure(&mut draft, document);
    }
    Ok(translation(draft))
}

/// Reads a configuration into its service.
fn configure<'c>(draft: &mut Draft<'c>, document: &'c Document) {
    let of_service = std::mem::replace(&mut draft.file, &document.file);
    CONFIGURATION.read(draft, &document.value);
    draft.file = of_service;
}

/// A container of the machine configuration.
///
/// # Errors
/// Where Talos refuses the document, too.
pub fn container(context: &Context<'_>) -> Result<Translation, Error> {
    let value = &context.document.value;
    let mut draft = context.draft()?;
    let image = value.get("image");
    if image.and_then(Value::text).is_none_or(str::is_empty) {
        return context.refuse(image, "the key image is missing: it names the image of the container");
    }
    // What Talos does without a word of the document.
    draft.container.network = ContainerNetwork::None;
    draft.spec.security.read_only_root = true;
    give(&mut draft, 0);
    CONTAINER_CONFIG.read(&mut draft, value);
    Ok(translation(draft))
}

fn translation(draft: Draft<'_>) -> Translation {
    let name = draft.spec.name.clone();
    let (file, findings) = draft.finished();
    Translation { name, file, beside: Vec::new(), findings }
}
