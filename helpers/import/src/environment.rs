//! The environment of a unit, and the variables in its commands.

use kelson_spec::service::Inherit;

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::words::words;

/// Variables that systemd sets itself for some or all runs.
const OF_SYSTEMD: [&str; 29] = [
    "PATH",
    "LANG",
    "USER",
    "LOGNAME",
    "HOME",
    "SHELL",
    "INVOCATION_ID",
    "XDG_RUNTIME_DIR",
    "RUNTIME_DIRECTORY",
    "STATE_DIRECTORY",
    "CACHE_DIRECTORY",
    "LOGS_DIRECTORY",
    "CONFIGURATION_DIRECTORY",
    "CREDENTIALS_DIRECTORY",
    "MAINPID",
    "MANAGERPID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "SYSTEMD_EXEC_PID",
    "TERM",
    "LOG_NAMESPACE",
    "JOURNAL_STREAM",
    "SERVICE_RESULT",
    "EXIT_CODE",
    "EXIT_STATUS",
];

/// Those of them that Kelson sets for no service.
const NEVER_SET: [&str; 7] = [
    "LANG",
    "INVOCATION_ID",
    "XDG_RUNTIME_DIR",
    "CREDENTIALS_DIRECTORY",
    "SYSTEMD_EXEC_PID",
    "LOG_NAMESPACE",
    "JOURNAL_STREAM",
];

/// The variables of a word that Kelson gives no service. `of_hook`: a hook beside the main process, which knows its PID.
pub fn unknown_variables(word: &str, of_hook: bool) -> Vec<String> {
    let end = |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let names = word.split('$').skip(1).map(|after| after.strip_prefix('{').unwrap_or(after));
    let names = names.map(|name| name.split_at_checked(end(name)).map_or("", |(name, _)| name));
    let given = ["PATH", "USER", "LOGNAME", "HOME", "SHELL", "NOTIFY_SOCKET"];
    let folders = |name: &str| name.ends_with("_DIRECTORY") && name != "CREDENTIALS_DIRECTORY";
    let has = |name: &str| given.contains(&name) || folders(name) || of_hook && name == "MAINPID";
    let lacks = |name: &&str| OF_SYSTEMD.contains(name) && !has(name);
    names.filter(lacks).map(|name| format!("${name}")).collect()
}

/// Whether it can be a variable of a service file.
pub fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The variables of `Environment=`, the last value of each, and what is wrong with others.
fn own(draft: &Draft<'_>, list: &[String]) -> (Vec<(String, String)>, Outcome) {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut wrong = Outcome::default();
    for value in list {
        let entries = match words(value) {
            Ok(entries) => entries,
            Err(error) => {
                wrong = wrong.and(Outcome::rejected(format!("{value}: {error}")));
                continue;
            }
        };
        for entry in entries {
            let entry = match draft.expanded(&entry) {
                Ok(entry) => entry,
                Err(outcome) => {
                    wrong = wrong.and(outcome);
                    continue;
                }
            };
            match entry.split_once('=') {
                Some((name, value)) if is_variable(name) && name != "KELSON_RUN" && name != "inherit" => {
                    match found.iter_mut().find(|(known, _)| known == name) {
                        Some((_, old)) => value.clone_into(old),
                        None => found.push((name.to_owned(), value.to_owned())),
                    }
                }
                _ => {
                    let text = format!("{entry} sets no variable that a service file can have");
                    wrong = wrong.and(Outcome::rejected(text));
                }
            }
        }
    }
    (found, wrong)
}

pub fn environment(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (found, outcome) = own(draft, setting.list());
    let gone = draft.settings.service_list("UnsetEnvironment").iter();
    let gone: Vec<&str> = gone.flat_map(|value| value.split_ascii_whitespace()).collect();
    let stays = |(name, value): &(String, String)| {
        !gone.iter().any(|gone| gone == name || *gone == format!("{name}={value}"))
    };
    draft.spec.environment = found.into_iter().filter(stays).collect();
    outcome
}

pub fn environment_file(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let mut outcome = Outcome::default();
    for value in setting.list() {
        let (optional, path) = value.strip_prefix('-').map_or(("", value.as_str()), |path| ("-", path));
        let path = match draft.expanded(path) {
            Ok(path) => path,
            Err(wrong) => {
                outcome = outcome.and(wrong);
                continue;
            }
        };
        if !path.starts_with('/') || path.contains(['*', '?', '[']) {
            outcome = outcome.and(Outcome::rejected(format!("{path} is not the path of one file")));
            continue;
        }
        let entry = format!("{optional}{path}");
        if !draft.environment_files.contains(&entry) {
            draft.environment_files.push(entry);
        }
    }
    outcome
}

pub fn pass_environment(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let names = setting.list().iter().flat_map(|value| value.split_ascii_whitespace());
    let names: Vec<String> = names
        .filter(|name| is_variable(name) && !name.starts_with(Inherit::OWN))
        .map(str::to_owned)
        .collect();
    if !names.is_empty() {
        draft.spec.inherit = Inherit::Names(names);
    }
    Outcome::as_table()
}

pub fn unset_environment(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let names = setting.list().iter().flat_map(|value| value.split_ascii_whitespace());
    let set: Vec<&str> =
        names.filter(|name| OF_SYSTEMD.contains(name) && !NEVER_SET.contains(name)).collect();
    match (set.is_empty(), draft.settings.service_list("EnvironmentFile").is_empty()) {
        (true, true) => Outcome::as_table(),
        (false, _) => Outcome::rejected(format!("Kelson sets {} for every service", set.join(", "))),
        (true, false) => Outcome::rejected("what a file of the environment sets is not taken away again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_no_service_gets_are_found() {
        for (word, beside, found) in [
            ("$MAINPID", false, vec!["$MAINPID"]),
            ("$MAINPID", true, vec![]),
            ("-p${EXIT_STATUS}x$HOME", true, vec!["$EXIT_STATUS"]),
            ("$OPTIONS ${PATH}", false, vec![]),
            ("LISTEN_FDS", false, vec![]),
            ("$", false, vec![]),
        ] {
            assert_eq!(unknown_variables(word, beside), found, "{word}");
        }
    }
}
