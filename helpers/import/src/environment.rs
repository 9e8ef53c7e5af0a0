//! The environment of a unit, and the variables in its commands.

use std::collections::BTreeMap;

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

/// The variables whose values a unit fixes, if it fixes any.
#[derive(Debug, Default)]
pub struct Known {
    set: BTreeMap<String, String>,
    /// A file of the host may set others, and these.
    open: bool,
}

impl Known {
    pub fn of(draft: &Draft<'_>) -> Known {
        let (own, wrong) = own(draft, draft.settings.service_list("Environment"));
        let open = ["EnvironmentFile", "PassEnvironment", "UnsetEnvironment", "PAMName"];
        let open = open.iter().any(|key| !draft.settings.service_list(key).is_empty());
        Known { set: own.into_iter().collect(), open: open || wrong != Outcome::default() }
    }

    /// The value of a variable; `None`: only a run knows it.
    fn value(&self, name: &str) -> Option<&str> {
        match (self.set.get(name), self.open) {
            _ if !is_variable(name) => Some(""),
            (Some(value), false) => Some(value),
            (None, false) if !OF_SYSTEMD.contains(&name) => Some(""),
            _ => None,
        }
    }
}

/// Words of a command, as they are and as a shell reads them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expanded {
    pub words: Vec<String>,
    pub script: Vec<String>,
    /// Variables of which only a run knows the values; they stay in the words.
    pub open: Vec<String>,
}

impl Expanded {
    /// Adds a word without a variable.
    pub fn literal(&mut self, word: &str) {
        self.words.push(word.to_owned());
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,@+%".contains(letter);
        let bare = !word.is_empty()
            && word.chars().all(|letter| plain(letter) || letter == '=' && word.starts_with('-'));
        self.script.push(if bare { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) });
    }

    /// Adds a word with the values of its variables: `$NAME` as a whole word becomes as many words as its value has,
    /// `${NAME}` a part of one.
    pub fn word(&mut self, known: &Known, word: &str) {
        if let Some(name) = word.strip_prefix('$').filter(|name| !name.starts_with(['{', '$'])) {
            match known.value(name) {
                Some(value) => {
                    let all = words(value).unwrap_or_else(|_| vec![value.to_owned()]);
                    all.iter().for_each(|word| self.literal(word));
                }
                None => {
                    self.open.push(word.to_owned());
                    self.words.push(word.to_owned());
                    self.script.push(word.to_owned());
                }
            }
            return;
        }
        let (mut out, mut quoted, mut is_open) = (String::new(), String::new(), false);
        let mut add = |text: &str| {
            out.push_str(text);
            for letter in text.chars() {
                if matches!(letter, '\\' | '"' | '$' | '`') {
                    quoted.push('\\');
                }
                quoted.push(letter);
            }
            (out.len(), quoted.len())
        };
        let mut rest = word;
        let mut variables = Vec::new();
        while let Some((before, after)) = rest.split_once('$') {
            add(before);
            let named = after.strip_prefix('{').and_then(|after| after.split_once('}'));
            rest = match (after.strip_prefix('$'), named) {
                (Some(after), _) => {
                    add("$");
                    after
                }
                (None, Some((name, after))) if is_variable(name) => {
                    match known.value(name) {
                        Some(value) => {
                            add(value);
                        }
                        None => variables.push((add(""), name)),
                    }
                    after
                }
                _ => {
                    add("$");
                    after
                }
            };
        }
        add(rest);
        // From the last on, so that the places before it stay.
        for ((in_out, in_quoted), name) in variables.into_iter().rev() {
            let text = format!("${{{name}}}");
            out.insert_str(in_out, &text);
            quoted.insert_str(in_quoted, &text);
            self.open.push(text);
            is_open = true;
        }
        match is_open {
            true => {
                self.words.push(out);
                self.script.push(format!("\"{quoted}\""));
            }
            false => self.literal(&out),
        }
    }
}

/// Whether a shell that runs in place of the program has the variable, if the program would.
pub fn is_in_shell(variable: &str) -> bool {
    let name = variable.trim_start_matches(['$', '{']).trim_end_matches('}');
    ["PATH", "USER", "LOGNAME", "HOME", "SHELL"].contains(&name) || !OF_SYSTEMD.contains(&name)
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
    if !draft.environment_files.is_empty() && !draft.settings.service_list("Environment").is_empty() {
        return outcome.and(Outcome::rejected(
            "the files come before `environment` in Kelson, so they do not replace what Environment= sets; take the \
             variables that a file sets out of `environment`",
        ));
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
    let set: Vec<&str> = names.filter(|name| OF_SYSTEMD.contains(name)).collect();
    match (set.is_empty(), draft.settings.service_list("EnvironmentFile").is_empty()) {
        (true, true) => Outcome::as_table(),
        (false, _) => Outcome::rejected(format!("Kelson sets {} for every service", set.join(", "))),
        (true, false) => Outcome::rejected("what a file of the environment sets is not taken away again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(known: &Known, word: &str) -> Expanded {
        let mut expanded = Expanded::default();
        expanded.word(known, word);
        expanded
    }

    #[test]
    fn variables_that_a_unit_fixes_are_put_in() {
        let set = [("A", "x 'y z'"), ("E", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let known = Known { set: set.into_iter().collect(), open: false };
        for (word, expected) in [
            ("$A", vec!["x", "y z"]),
            ("${A}", vec!["x 'y z'"]),
            ("-o${A}${NO}", vec!["-ox 'y z'"]),
            ("$E", vec![]),
            ("$NO", vec![]),
            ("${E}", vec![""]),
            ("a$A", vec!["a$A"]),
            ("$$A", vec!["$A"]),
            ("a$$", vec!["a$"]),
            ("${", vec!["${"]),
            ("plain", vec!["plain"]),
        ] {
            let found = of(&known, word);
            assert_eq!(
                (found.words, found.open),
                (expected.into_iter().map(str::to_owned).collect(), Vec::new()),
                "{word}"
            );
        }
        assert_eq!(of(&known, "${HOME}/x").open, ["${HOME}"]);
        assert_eq!(of(&known, "$MAINPID").words, ["$MAINPID"]);
    }

    /// What a shell makes of the words.
    #[test]
    fn a_shell_reads_the_words_as_systemd_does() {
        let known = Known { open: true, ..Known::default() };
        let mut expanded = Expanded::default();
        for word in ["it's", "$A", "-o${B}\"`x`\\ $$C ${D}", "a b", "*", "$1", "$E"] {
            expanded.word(&known, word);
        }
        assert_eq!(expanded.open, ["$A", "${D}", "${B}", "$E"]);
        let script = format!("set -f; printf '<%s>' {}", expanded.script.join(" "));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).env_clear().env("A", "1  * 2").env("B", "b c").env("D", "$x");
        let done = shell.output().unwrap();
        let out = String::from_utf8(done.stdout).unwrap();
        assert_eq!(out, "<it's><1><*><2><-ob c\"`x`\\ $C $x><a b><*>", "{script}");
    }

    #[test]
    fn a_file_may_set_any() {
        let known = Known { open: true, ..Known::default() };
        assert_eq!(of(&known, "$NO").open, ["$NO"]);
        assert_eq!(of(&known, "--x=${NO}").open, ["${NO}"]);
    }
}
