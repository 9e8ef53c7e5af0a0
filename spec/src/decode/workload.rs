//! What a service runs: `process`, and the command of it or of a container.

use super::{Decoder, Place, quoted};
use crate::service::ProcessSpec;
use crate::tree::{Node, Value};

impl Decoder<'_> {
    pub(super) fn process(&mut self, place: &Place<'_>, node: &Node) -> Option<ProcessSpec> {
        let fields = self.fields(place, node, &["command", "workingDirectory"])?;
        let mut directory = std::path::PathBuf::from("/");
        self.set(&fields, "workingDirectory", &mut directory, |d, p, n| d.path(p, n));
        let command =
            self.require(&fields, "command", "command: [PROGRAM, ARGUMENT]", |d, p, n| d.command(p, n));
        Some(ProcessSpec { command: command?, working_directory: directory })
    }

    /// A program and its arguments.
    pub(super) fn command(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<String>> {
        if matches!(node.value, Value::Scalar(_)) {
            self.expected(place, node, "a list such as [/usr/bin/program, --flag]");
            return None;
        }
        let before = self.diagnostics.len();
        let command = self.texts(place, node)?;
        if self.diagnostics.len() > before {
            return None;
        }
        match command.first().map(String::as_str) {
            None => self.wrong(place, node.at, "the command is empty; write a program and its arguments"),
            Some("") => self.wrong(place, node.at, "the program's name is empty"),
            Some(program) if program.contains('/') && !program.starts_with('/') => {
                let text = format!(
                    "{} is not the path of a program; write it with / first, or a name alone to look up in PATH",
                    quoted(program)
                );
                self.wrong(place, node.at, text);
            }
            Some(_) => return Some(command),
        }
        None
    }
}
