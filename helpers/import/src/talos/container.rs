//! `ContainerConfig`: a container that the machine configuration of Talos 1.15 declares.

use std::path::PathBuf;

use super::draft::{Draft, Part, each, only};
use super::mounts;
use crate::container::registry_name;
use crate::finding::Outcome;
use crate::key::kept;
use crate::yaml::Value;

pub const RUN_AS: Part = Part {
    title: "`ContainerConfig`: `runAs`",
    keys: &[
        kept("uid", run_as_user, "`user`"),
        kept("gid", run_as_group, "the group in `user`; it needs a `uid`"),
    ],
};

pub fn image(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let name = value.text().unwrap_or_default();
    if name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        draft.container.image = "unknown".to_owned();
        return Outcome::rejected(format!("{name:?} is no name of an image"));
    }
    draft.container.image = registry_name(name);
    Outcome::as_table()
}

fn words(value: &Value) -> Option<Vec<String>> {
    let words = value.texts().filter(|_| !matches!(value.content, crate::yaml::Kind::Text(_)))?;
    Some(words.into_iter().map(str::to_owned).collect())
}

pub fn entrypoint(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match words(value) {
        Some(words) if words.first().is_some_and(String::is_empty) => {
            Outcome::rejected("the first word of a command is its program")
        }
        Some(words) if !words.is_empty() => {
            // The command of the image is dropped with its entrypoint.
            let arguments = std::mem::take(&mut draft.container.arguments);
            draft.container.command = words.into_iter().chain(arguments).collect();
            Outcome::as_table()
        }
        Some(_) => Outcome::kept("the entrypoint of the image"),
        None => Outcome::rejected("this is no list of words"),
    }
}

pub fn arguments(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match words(value) {
        Some(words) if draft.container.command.is_empty() => draft.container.arguments = words,
        Some(words) => draft.container.command.extend(words),
        None => return Outcome::rejected("this is no list of words"),
    }
    Outcome::as_table()
}

pub fn working_directory(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text().unwrap_or_default() {
        "" => Outcome::kept("that of the image"),
        path if path.starts_with('/') => {
            draft.container.working_directory = Some(PathBuf::from(path));
            Outcome::as_table()
        }
        path => Outcome::rejected(format!("{path:?} is no absolute path")),
    }
}

fn number(value: Option<&Value>) -> Option<i32> {
    value.and_then(Value::text)?.parse().ok().filter(|number| *number >= 0)
}

fn run_as_user(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let group = draft.context.document.value.get("runAs").and_then(|run_as| number(run_as.get("gid")));
    match (number(Some(value)), group) {
        (Some(user), Some(group)) => draft.container.user = Some(format!("{user}:{group}")),
        (Some(user), None) => draft.container.user = Some(user.to_string()),
        (None, _) => return Outcome::rejected("this is no number of a user"),
    }
    Outcome::as_table()
}

fn run_as_group(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let has_user =
        draft.context.document.value.get("runAs").is_some_and(|run_as| number(run_as.get("uid")).is_some());
    match (number(Some(value)), has_user) {
        (None, _) => Outcome::rejected("this is no number of a group"),
        (_, false) => Outcome::rejected("the group counts with a user alone; write uid too"),
        _ => Outcome::as_table(),
    }
}

pub fn mounts(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    each(draft, value, |draft, item| match only(item, "userVolume, tmpfs and hostPath") {
        Ok(_) => mounts::OF_CONTAINER.read(draft, item),
        Err(outcome) => outcome,
    })
}
