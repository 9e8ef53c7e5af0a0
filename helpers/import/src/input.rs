//! `StandardInput=` and its like: what the service reads, and its terminal.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kelson_spec::service::{Input, TerminalOutput, TerminalSpec, Workload};

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::values::boolean;
use crate::words::unescaped;

const CONSOLE: &str = "/dev/console";
/// Programs that have the input of the service too, in systemd.
const BESIDE: [&str; 5] = ["ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost", "ExecReload"];

pub fn input(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "" | "null" => Outcome::kept("the input of every service is /dev/null"),
        "socket" if draft.given_sockets.len() == 1 => {
            draft.of_sockets.stdin = true;
            Outcome::kept("`sockets: [{stdin: true}]`")
        }
        "socket" => Outcome::rejected(
            "the input of the service is /dev/null, and not its one socket: give the file of that unit to this command too",
        ),
        "tty" => with_terminal(draft, false).and(Outcome::approximated(
            "a start fails while another program has the terminal, where systemd waits; `restart` tries it again",
        )),
        "tty-fail" => with_terminal(draft, false),
        "tty-force" => with_terminal(draft, true),
        "data" => Outcome::as_table(),
        other => match other.strip_prefix("file:").map(|path| draft.expanded(path)) {
            Some(Ok(path)) if path.starts_with('/') => with_input(draft, Input::File(path.into())),
            Some(Err(outcome)) => outcome,
            _ => Outcome::rejected(format!("the input of the service is /dev/null, and not {other}")),
        },
    }
}

/// Gives the main program its input.
fn with_input(draft: &mut Draft<'_>, input: Input) -> Outcome {
    if let Workload::Process(process) = &mut draft.spec.workload {
        process.input = input;
    }
    let is_beside = |key: &&str| !draft.settings.service_list(key).is_empty();
    match BESIDE.iter().any(is_beside) || draft.settings.service_list("ExecStart").len() > 1 {
        true => Outcome::approximated(
            "only the last program of `ExecStart=` has this input; the others read /dev/null",
        ),
        false => Outcome::as_table(),
    }
}

/// Whether the service asks for a terminal.
pub fn has_terminal(draft: &Draft<'_>) -> bool {
    matches!(draft.settings.service("StandardInput"), "tty" | "tty-fail" | "tty-force")
}

fn with_terminal(draft: &mut Draft<'_>, force: bool) -> Outcome {
    let path = match terminal_path(draft) {
        Ok(path) if TerminalSpec::is_path(path.as_ref()) => path,
        Ok(path) => {
            return Outcome::rejected(format!("the service has no terminal: {path} is not below /dev"));
        }
        Err(outcome) => return outcome,
    };
    let number = |key| draft.settings.service(key).parse().ok().filter(|number: &u16| *number > 0);
    let terminal = TerminalSpec {
        path: path.into(),
        output: match goes_to_terminal(draft, "StandardOutput") || goes_to_terminal(draft, "StandardError") {
            true => TerminalOutput::Terminal,
            false => TerminalOutput::Log,
        },
        force,
        hang_up: draft.is_on("TTYVHangup"),
        reset: draft.is_on("TTYReset"),
        clear: draft.is_on("TTYVTDisallocate"),
        rows: number("TTYRows"),
        columns: number("TTYColumns"),
    };
    with_input(draft, Input::Terminal(terminal))
}

pub fn terminal_path(draft: &Draft<'_>) -> Result<String, Outcome> {
    match draft.settings.service("TTYPath") {
        "" => Ok(CONSOLE.to_owned()),
        path => draft.expanded(path),
    }
}

/// Where the output or the errors of a service with a terminal go in systemd.
pub fn goes_to_terminal(draft: &Draft<'_>, key: &str) -> bool {
    match (key, draft.settings.service(key)) {
        (_, "tty") | ("StandardOutput", "inherit") => true,
        ("StandardError", "" | "inherit") => goes_to_terminal(draft, "StandardOutput"),
        _ => false,
    }
}

/// `TTYPath=` and the other keys of a terminal: read with `StandardInput=`.
pub fn of_terminal(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let text = setting.last();
    if has_terminal(draft) {
        let is_number = matches!(setting.key.as_str(), "TTYRows" | "TTYColumns");
        return match is_number && !text.is_empty() && text.parse::<u16>().map_or(true, |number| number == 0) {
            true => Outcome::rejected(format!(
                "{text} is no number of rows or columns, so the terminal keeps its own"
            )),
            false => Outcome::as_table(),
        };
    }
    if setting.key == "TTYPath" {
        return Outcome::kept("it counts for the keys that ask for a terminal");
    }
    match text.is_empty() || boolean(text) == Some(false) {
        true => Outcome::kept("with this value nothing is lost"),
        false => Outcome::rejected("nothing is done with a terminal that is not the input of the service"),
    }
}

/// `StandardInputText=` and `StandardInputData=`.
pub fn data(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    if !matches!(draft.settings.service("StandardInput"), "" | "data") {
        return Outcome::kept("the unit asks for another input");
    }
    let of = |key| draft.settings.service_list(key);
    if !of("StandardInputText").is_empty() && !of("StandardInputData").is_empty() {
        return Outcome::rejected(
            "the input of the service is empty: the order of text and data is not kept; write it as one text",
        );
    }
    let read = match setting.key.as_str() {
        "StandardInputText" => setting.list().iter().map(|line| text(draft, line)).collect(),
        _ => decoded(&setting.list().concat()),
    };
    match read {
        Ok(text) if text.len() <= Input::LONGEST => with_input(draft, Input::Text(text)),
        Ok(_) => Outcome::rejected("the input of the service is empty: it is too long; write it into a file"),
        Err(outcome) => outcome,
    }
}

fn text(draft: &Draft<'_>, line: &str) -> Result<String, Outcome> {
    let line = unescaped(line)
        .map_err(|error| Outcome::rejected(format!("the input of the service is empty: {error}")))?;
    Ok(draft.expanded(&line)? + "\n")
}

fn decoded(base64: &str) -> Result<String, Outcome> {
    let base64: String = base64.split_ascii_whitespace().collect();
    let bytes = BASE64_STANDARD.decode(base64).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|text| !text.contains('\0')).ok_or_else(
        || Outcome::rejected("the input of the service is empty: it is no text; write it into a file"),
    )
}

/// `UtmpIdentifier=`.
pub fn utmp(_: &mut Draft<'_>, setting: &Setting) -> Outcome {
    if setting.last().is_empty() { Outcome::kept("no record is asked for") } else { Outcome::as_table() }
}
