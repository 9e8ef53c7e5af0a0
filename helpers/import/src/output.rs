//! `StandardOutput=` and `StandardError=`: the log of the service, its terminal, or a file.

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::input::{goes_to_terminal, has_terminal, terminal_path};
use crate::settings::Setting;

/// `StandardOutput=` and `StandardError=`.
pub fn output(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    if let Some(outcome) = of_terminal(draft, setting) {
        return outcome;
    }
    match setting.last() {
        "" | "inherit" | "journal" | "syslog" | "kmsg" => Outcome::as_table(),
        "journal+console" | "syslog+console" | "kmsg+console" => {
            draft.spec.logs.console = true;
            Outcome::as_table()
        }
        "null" => Outcome::approximated("the output is in the log of the service, where systemd drops it"),
        other => match into_file(draft, &setting.key, other) {
            Ok(true) => Outcome::approximated(
                "a shell opens the file as the user of the service, for the main program alone",
            ),
            Ok(false) => {
                Outcome::rejected(format!("the output is in the log of the service, and not at {other}"))
            }
            Err(outcome) => outcome,
        },
    }
}

/// Has a shell open the file of `append:PATH` and the like. `false`: it is no such value.
fn into_file(draft: &mut Draft<'_>, key: &str, value: &str) -> Result<bool, Outcome> {
    let Some((kind, path)) = value.split_once(':') else { return Ok(false) };
    let operator = match kind {
        "append" => ">>",
        "truncate" => ">",
        "file" => "<>",
        _ => return Ok(false),
    };
    let path = draft.expanded(path)?;
    if !path.starts_with('/') {
        return Ok(false);
    }
    let (number, rest) = match (key, draft.settings.service("StandardError")) {
        ("StandardError", _) => (2, ""),
        // Errors go where the output goes.
        (_, "" | "inherit") => (1, " 2>&1"),
        _ => (1, ""),
    };
    let script = format!("exec \"$@\" {number}{operator}\"$0\"{rest}");
    draft.scheduler.extend(["sh".to_owned(), "-c".to_owned(), script, path]);
    Ok(true)
}

/// The output of a service that has a terminal, or asks for one; `None`: it has none, and goes where that of every
/// service goes.
fn of_terminal(draft: &mut Draft<'_>, setting: &Setting) -> Option<Outcome> {
    let goes = goes_to_terminal(draft, &setting.key);
    if !has_terminal(draft) {
        if setting.last() != "tty" {
            return None;
        }
        let opened =
            terminal_path(draft).and_then(|path| into_file(draft, &setting.key, &format!("append:{path}")));
        return Some(opened.map_or_else(
            |outcome| outcome,
            |_| {
                Outcome::approximated(
                    "a shell opens the terminal as the user of the service, for the main program alone",
                )
            },
        ));
    }
    let other = match setting.key.as_str() {
        "StandardOutput" => "StandardError",
        _ => "StandardOutput",
    };
    match (goes, goes_to_terminal(draft, other)) {
        (true, _) => Some(Outcome::kept("`process: {terminal: {output: terminal}}`")),
        (false, true) => Some(Outcome::approximated("output and errors both go to the terminal")),
        (false, false) => None,
    }
}
