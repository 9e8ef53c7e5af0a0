//! What a service of a compose file runs, and as whom.

use std::path::PathBuf;

use kelson_spec::registries::PullPolicy;

use super::draft::Draft;
use crate::container::registry_name;
use crate::finding::Outcome;
use crate::values::size;
use crate::words::words;
use crate::yaml::{Kind, Value};

/// The sizes that a log file may have, in bytes.
const LEAST_LOG: u64 = 4 << 10;
const MOST_LOGS: u32 = 100;

fn wrong(what: &str) -> Outcome {
    Outcome::rejected(format!("this is not {what}"))
}

/// The single value of a key, put where it belongs.
fn text(draft: &mut Draft<'_>, value: &Value, put: fn(&mut Draft<'_>, &str) -> Outcome) -> Outcome {
    match value.text() {
        Some("") => Outcome::as_table(),
        Some(text) => put(draft, text),
        None => wrong("a single value"),
    }
}

pub fn image(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    text(draft, value, |draft, name| {
        draft.container.image = registry_name(name);
        Outcome::as_table()
    })
}

/// What is built has the name `image`, or that which Docker gives it.
pub fn build(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let own = draft.context.named("services", draft.name).and_then(|own| own.get("image"));
    if value.is_empty() || own.is_some_and(|image| !image.is_empty()) {
        return Outcome::as_table();
    }
    draft.container.image = format!("{}-{}", draft.context.file.project, draft.name);
    let name = &draft.container.image;
    Outcome::approximated(format!(
        "build the image {name} with a tool such as `buildah`, into a folder of images"
    ))
}

/// The words of a command, as a list or as a line of a shell without its other powers.
fn command_words(value: &Value) -> Result<Vec<String>, Outcome> {
    match &value.content {
        Kind::Text(line) => words(line).map_err(|error| Outcome::rejected(error.to_string())),
        _ => match value.texts() {
            Some(texts) => Ok(texts.into_iter().map(str::to_owned).collect()),
            None => Err(wrong("a command: write a list of words")),
        },
    }
}

pub fn entrypoint(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match command_words(value) {
        Ok(words) => {
            // The command of the image is dropped with its entrypoint.
            let arguments = std::mem::take(&mut draft.container.arguments);
            draft.container.command = words.into_iter().chain(arguments).collect();
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn command(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match command_words(value) {
        Ok(words) if draft.container.command.is_empty() => draft.container.arguments = words,
        Ok(words) => draft.container.command.extend(words),
        Err(outcome) => return outcome,
    }
    Outcome::as_table()
}

pub fn container_name(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text() {
        Some(name) if name == draft.spec.name => Outcome::kept("it is the name of the service"),
        _ => Outcome::as_table(),
    }
}

pub fn working_dir(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    text(draft, value, |draft, path| match path.starts_with('/') {
        true => {
            draft.container.working_directory = Some(PathBuf::from(path));
            Outcome::as_table()
        }
        false => wrong("an absolute path"),
    })
}

pub fn hostname(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    text(draft, value, |draft, name| {
        draft.container.hostname = Some(name.to_owned());
        Outcome::as_table()
    })
}

pub fn user(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    text(draft, value, |draft, name| {
        draft.container.user = Some(name.to_owned());
        Outcome::as_table()
    })
}

pub fn pull_policy(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    text(draft, value, |draft, policy| {
        draft.container.pull = match policy {
            "always" => PullPolicy::Always,
            "never" => PullPolicy::Never,
            "missing" | "if_not_present" => PullPolicy::IfMissing,
            other => return Outcome::rejected(format!("an image is pulled if it is missing, not {other:?}")),
        };
        Outcome::as_table()
    })
}

pub fn environment(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let Some(pairs) = value.pairs() else { return wrong("a mapping or list of variables") };
    let mut outcome = Outcome::as_table();
    for (name, value) in pairs {
        let given = || {
            draft
                .context
                .file
                .variables
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
        };
        match value.or_else(given) {
            Some(value) => {
                let value = value.to_owned();
                draft.set(name, &value);
            }
            None => {
                let text = format!("{name} is not set: give its value with --variable {name}=VALUE");
                outcome = outcome.and(Outcome::approximated(text));
            }
        }
    }
    outcome
}

pub fn env_file(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let items = match &value.content {
        Kind::List(items) => items.as_slice(),
        _ => std::slice::from_ref(value),
    };
    let mut outcome = Outcome::as_table();
    for item in items {
        let path = item.get("path").unwrap_or(item).text().filter(|path| !path.is_empty());
        let Some(path) = path else { return wrong("a path of a file") };
        let optional = item.get("required").and_then(Value::text) == Some("false");
        let path = draft.context.path(path);
        draft.environment_files.push(format!("{}{}", if optional { "-" } else { "" }, path.display()));
        if item.get("format").is_some_and(|format| !format.is_empty() && format.text() != Some("raw")) {
            outcome = outcome.and(Outcome::rejected("this format is not known"));
        }
    }
    outcome
}

pub fn log_options(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let mut outcome = Outcome::as_table();
    for (name, value) in value.entries() {
        let text = value.text().unwrap_or_default();
        let bytes = size(&text.trim_end_matches(['b', 'B']).to_ascii_uppercase()).flatten();
        let files = text.parse::<u32>().ok().filter(|files| (1..=MOST_LOGS).contains(files));
        match (name.as_str(), bytes, files) {
            ("max-size", Some(bytes), _) => draft.spec.logs.max_size = bytes.max(LEAST_LOG),
            ("max-file", _, Some(files)) => draft.spec.logs.max_files = files,
            ("compress", ..) => {}
            _ => outcome = outcome.and(Outcome::rejected(format!("{name} has no counterpart"))),
        }
    }
    outcome
}
