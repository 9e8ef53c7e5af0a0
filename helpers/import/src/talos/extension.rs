//! An extension service: the file that a system extension brings for a service of its own.

use super::bounds::restart_policy;
use super::draft::{Draft, switch};
use crate::finding::Outcome;
use crate::yaml::Value;

/// The image, which stands for a folder of the extension.
pub fn image(draft: &mut Draft<'_>) -> Outcome {
    let name = draft.name;
    draft.container.image = name.to_owned();
    Outcome::approximated(format!(
        "make the image {name} of the folder /usr/local/lib/containers/{name} of the extension"
    ))
}

/// The path of a program, which may begin at the root of the container; or its name alone, which is looked up there.
pub fn program(text: &str) -> Option<String> {
    let is_file = |path: &str| {
        let last = path.rsplit('/').next().unwrap_or_default();
        !matches!(last, "" | "." | "..") && !path.split('/').any(|part| part == "..")
    };
    let path = text.strip_prefix("./").unwrap_or(text);
    let absolute = path.starts_with('/') || (path == text && !path.contains('/'));
    is_file(path).then(|| if absolute { path.to_owned() } else { format!("/{path}") })
}

pub fn entrypoint(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let program = value.text().and_then(program).unwrap_or_default();
    draft.container.command.insert(0, program);
    Outcome::as_table()
}

pub fn arguments(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.texts() {
        Some(words) => {
            draft.container.command.extend(words.into_iter().map(str::to_owned));
            Outcome::as_table()
        }
        None => Outcome::rejected("this is no list of arguments"),
    }
}

pub fn environment_file(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text().unwrap_or_default() {
        "" => Outcome::kept("no file is named"),
        path if path.starts_with('/') => {
            draft.environment_files.push(path.to_owned());
            Outcome::as_table()
        }
        path => Outcome::rejected(format!("{path:?} is no absolute path")),
    }
}

pub fn restart(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    if let Some(policy) = value.text().and_then(restart_policy) {
        draft.spec.restart.policy = policy;
    }
    Outcome::as_table()
}

pub fn log_to_console(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    switch(draft, value, |draft, is_on| {
        draft.spec.logs.console = is_on;
        Outcome::as_table()
    })
}
