//! `process`, and the command of it, of a container, of a hook or of a check.

use super::codec::Codec;
use super::input;
use super::mapping::{Mapping, keys};
use super::values::{path, text};
use crate::decode::{Decoder, quoted, shown};
use crate::tree::{Node, Value};
use kelson_spec::service::ProcessSpec;

pub fn process() -> Mapping<ProcessSpec> {
    let mapping = keys! {
        Mapping::new("process", ProcessSpec::default);
        needed "command" command = command(), "command: [PROGRAM, ARGUMENT]",
            "the program (a path, or a name that Kelson looks up in the service's `PATH`) and its arguments. \
             No shell reads them: write `[sh, -c, \"…\"]` for one";
        key "workingDirectory" working_directory = path(), "the directory in which it starts";
        means "stdin" (input::stdin_at()) if Units = Mapping::codec(input::stdin).optional(), "`/dev/null`",
            "what it reads on its [standard input](#stdin)";
        means "terminal" (input::terminal_at()) if Units = Mapping::codec(input::terminal).optional(), "none",
            "the [terminal](#terminal) that controls it, which is its input and output";
    };
    mapping.check(input::one_input)
}

/// A program and its arguments.
pub fn command() -> Codec<Vec<String>> {
    text().list_of(1..=usize::MAX, "").read_by(|d, node| d.command(node))
}

impl Decoder<'_> {
    /// A program and its arguments.
    pub fn command(&mut self, node: &Node) -> Option<Vec<String>> {
        if node.scalar().is_some() {
            return self.expected(node, "a list such as [/usr/bin/program, --flag]");
        }
        let before = self.diagnostics.len();
        let command = self.list(node, "a list of texts", |d, node| d.text(node))?;
        if self.diagnostics.len() > before {
            return None;
        }
        match command.first().map(String::as_str) {
            None => self.refuse(node, "the command is empty; write a program and its arguments"),
            Some("") => self.refuse(node, "the program's name is empty"),
            Some(program) if program.contains('/') && !program.starts_with('/') => {
                let text = format!(
                    "{} is not the path of a program; write it with / first, or a name alone to look up in PATH",
                    quoted(program)
                );
                self.refuse(node, text)
            }
            Some(_) => {
                self.unexpanded(node, &command);
                Some(command)
            }
        }
    }

    /// Warns of what only a shell would put a value in the place of.
    fn unexpanded(&mut self, node: &Node, command: &[String]) {
        let by_shell = command.iter().position(|word| is_shell(word)).unwrap_or(command.len());
        let Value::Sequence(items) = &node.value else { return };
        for (index, (word, item)) in command.iter().zip(items).enumerate().take(by_shell) {
            let Some(name) = variable(word) else { continue };
            let shown = shown(name);
            let text = match self.expands && index > 0 {
                true if name == word || is_braced_name(name) => continue,
                true => format!(
                    "{shown} is not expanded; write ${{NAME}} within a word, and $NAME only as a whole word"
                ),
                false if self.expands => {
                    format!("{shown} is not expanded, because it is the program; write its path")
                }
                false => format!(
                    "{shown} is not expanded, because no shell reads this command; write the value in its place, \
                     expand: true, or [sh, -c, \"exec … {shown}\"]"
                ),
            };
            self.warn(index, item.at, text);
        }
    }
}

/// `${NAME}`, without a default or the like.
fn is_braced_name(text: &str) -> bool {
    let inner = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
    inner.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

/// Whether the program reads the words after it as a script.
fn is_shell(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    ["sh", "ash", "bash", "dash", "fish", "ksh", "mksh", "zsh", "busybox", "env"].contains(&name)
}

/// The first `$NAME`, `${NAME}` or `$(NAME)` of a word. A word with blanks or quotes is a script of some language.
fn variable(word: &str) -> Option<&str> {
    if word.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | ';')) {
        return None;
    }
    let at = word.find('$')?;
    let rest = word.get(at..)?;
    let inner = rest.get(1..)?;
    let (name, closing) = match inner.chars().next()? {
        '{' => (inner.get(1..)?, Some('}')),
        '(' => (inner.get(1..)?, Some(')')),
        _ => (inner, None),
    };
    let length = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match closing {
        _ if !begins => None,
        None => rest.get(..length.checked_add(1)?),
        // `${NAME:-default}` too.
        Some('}') => rest.get(..=rest.find('}')?),
        Some(end) => name.get(length..)?.starts_with(end).then(|| rest.get(..length.checked_add(3)?))?,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_expand_is_found() {
        for (word, found) in [
            ("$PORT", Some("$PORT")),
            ("--port=$PORT,x", Some("$PORT")),
            ("${HOME}/bin", Some("${HOME}")),
            ("--to=${A:-b}", Some("${A:-b}")),
            ("$(POD_IP):80", Some("$(POD_IP)")),
            ("$_x", Some("$_x")),
            ("plain", None),
            ("$", None),
            ("$1", None),
            ("cost$", None),
            ("${", None),
            ("${A", None),
            ("$(date +%s)", None),
            ("^a$|^b$", None),
            ("{print $NF}", None),
            ("'$A'", None),
        ] {
            assert_eq!(variable(word), found, "{word}");
        }
        assert!(is_shell("/bin/sh") && is_shell("bash") && !is_shell("/usr/bin/shred"));
    }
}
