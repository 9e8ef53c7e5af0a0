//! Answers of `kelson-load` about applied configurations, as the API gives them.

use std::path::Path;
use std::time::SystemTime;

use kelson_proto::v1::{ConfigurationMistake, Generation as KeptGeneration};
use kelson_services::ServicesError;
use kelson_spec::applied::{Answer, Generation, Kept};
use kelson_spec::{Diagnostic, Loaded};
use kelson_sys::units;

use crate::supervisor::trial::Trial;

pub(super) fn applied(answer: Answer) -> Result<(Generation, Generation, Loaded), ServicesError> {
    match answer {
        Answer::Applied { before, now, loaded } => Ok((before, now, *loaded)),
        other => Err(unfit(&other)),
    }
}

pub(super) fn unfit(answer: &Answer) -> ServicesError {
    let kind = match answer {
        Answer::Applied { .. } => "a configuration",
        Answer::Settled => "that nothing is on trial",
        Answer::Files { .. } => "files",
        Answer::History { .. } => "the history",
        Answer::Refused(why) => why,
    };
    ServicesError::NotNow(format!("kelson-load answered with {kind}, which was not asked for"))
}

pub(super) fn waits(trial: &Trial) -> ServicesError {
    ServicesError::NotNow(format!(
        "generation {} of the configuration, applied by {}, waits for its confirmation for {}: `kelsonctl confirm` keeps \
         it, and `kelsonctl rollback {}` returns to the one before",
        trial.generation,
        trial.author,
        units::duration(trial.left()),
        trial.before
    ))
}

pub(super) fn end_of(trial: &Trial) -> SystemTime {
    let now = SystemTime::now();
    now.checked_add(trial.left()).unwrap_or(now)
}

pub(super) fn mistake(found: &Diagnostic, folder: &Path, warning: bool) -> ConfigurationMistake {
    let file = found.file.strip_prefix(folder).unwrap_or(&found.file);
    ConfigurationMistake {
        file: file.display().to_string(),
        line: found.line,
        column: found.column,
        message: found.message.clone(),
        warning,
    }
}

pub(super) fn generation(kept: Kept) -> KeptGeneration {
    let (author, message, applied) = match kept.about {
        Some(about) => (about.author, about.message, Some(about.time.into())),
        None => Default::default(),
    };
    KeptGeneration {
        number: kept.generation,
        current: kept.current,
        applied,
        author,
        message,
        reverted: kept.reverted,
    }
}
