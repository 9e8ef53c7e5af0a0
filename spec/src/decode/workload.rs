//! What a service runs: `process`, `container`, and the command of either.

use super::{Decoder, Place, quoted};
use crate::service::{ContainerMount, ContainerNetwork, ContainerSpec, ProcessSpec};
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

    pub(super) fn container(&mut self, place: &Place<'_>, node: &Node) -> Option<ContainerSpec> {
        let fields = self.fields(place, node, &["image", "command", "network", "mounts"])?;
        let image = self.require(&fields, "image", "image: NAME:TAG", |d, p, n| d.image(p, n));
        let mut command = Vec::new();
        self.set(&fields, "command", &mut command, |d, p, n| d.texts(p, n));
        let mut network = ContainerNetwork::Host;
        let networks = [("host", ContainerNetwork::Host), ("none", ContainerNetwork::None)];
        self.set(&fields, "network", &mut network, |d, p, n| d.choice(p, n, &networks));
        let mut mounts = Vec::new();
        self.set(&fields, "mounts", &mut mounts, |d, p, n| {
            d.list(p, n, "a list of mounts", |d, p, n| d.container_mount(p, n))
        });
        Some(ContainerSpec { command, network, mounts, ..ContainerSpec::new(&image?) })
    }

    fn image(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let image = self.word(place, node)?;
        if image.contains(char::is_whitespace) {
            let text = format!("{} is not a reference of an image, such as demo/nginx:1", quoted(&image));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(image)
    }

    fn container_mount(&mut self, place: &Place<'_>, node: &Node) -> Option<ContainerMount> {
        let fields = self.fields(place, node, &["source", "target", "options"])?;
        let source = self.require(&fields, "source", "source: PATH", |d, p, n| d.path(p, n));
        let target = self.require(&fields, "target", "target: PATH", |d, p, n| d.path(p, n));
        let mut options = Vec::new();
        self.set(&fields, "options", &mut options, |d, p, n| d.texts(p, n));
        Some(ContainerMount { source: source?, target: target?, options })
    }
}
