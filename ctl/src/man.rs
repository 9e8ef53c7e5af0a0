//! The manual page, from the same words as the help.

use clap::{Arg, Command, Id};

use crate::failure::STATUSES;

/// The page in the language of man(7).
pub fn page(command: &Command) -> String {
    let mut command = command.clone();
    command.build();
    let mut page = Page { out: String::new(), everywhere: ids(&command) };
    let version = command.get_version().unwrap_or_default();
    page.raw(&format!(".TH KELSONCTL 1 \"\" \"Kelson {version}\" \"Kelson\""));
    page.raw(".SH NAME");
    page.text(&format!("kelsonctl \\- {}", lower(&about(command.get_about()))));
    page.raw(".SH SYNOPSIS\n.B kelsonctl");
    page.raw("[\\fB\\-e\\fR \\fIE\\fR | \\fB\\-n\\fR \\fINODE\\fR,...] [\\fB\\-o\\fR \\fIFORMAT\\fR] \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]");
    page.raw(".SH DESCRIPTION");
    page.text(
        "Kelson is the first process of a small Linux host. kelsonctl shows and controls its services: on the \
         host itself over its Unix socket, from elsewhere over mutual TLS.",
    );
    page.raw(".SH OPTIONS");
    page.arguments(command.get_arguments());
    page.raw(".SH COMMANDS");
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        page.command("", inner);
    }
    page.raw(".SH EXIT STATUS");
    for (status, meaning) in STATUSES {
        page.raw(&format!(".TP\n.B {status}"));
        page.text(&quoted(meaning));
    }
    page.raw(".PP\nexec exits with the status of its command instead, or with 128+N if signal N ended it.");
    page.out + include_str!("man/end.roff")
}

/// The page as it grows.
struct Page {
    out: String,
    /// The options that every command has; the page shows them once.
    everywhere: Vec<Id>,
}

/// The options of a command that all within it have too.
fn ids(command: &Command) -> Vec<Id> {
    command
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|argument| argument.get_id().clone())
        .collect()
}

impl Page {
    fn raw(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// Text that roff fills; nothing at the beginning of a line is taken for a request.
    fn text(&mut self, text: &str) {
        for line in text.lines() {
            let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
            self.raw(&format!("{guard}{line}"));
        }
    }

    fn command(&mut self, before: &str, command: &Command) {
        let name = format!("{before}{}", command.get_name());
        let mut head = format!("\\fB{}\\fR", quoted(&name));
        for place in command.get_positionals() {
            let more = if matches!(place.get_action(), clap::ArgAction::Append) { "..." } else { "" };
            let word = format!("\\fI{}\\fR{more}", quoted(&value(place)));
            head += &if place.is_required_set() { format!(" {word}") } else { format!(" [{word}]") };
        }
        self.raw(&format!(".SS {head}"));
        let aliases: Vec<String> =
            command.get_visible_aliases().map(|alias| format!("\\fB{}\\fR", quoted(alias))).collect();
        if !aliases.is_empty() {
            self.raw(&format!("Also {}.", aliases.join(", ")));
        }
        let long = command.get_long_about().or(command.get_about());
        for paragraph in about(long).split("\n\n") {
            self.raw(".PP");
            self.text(&quoted(paragraph.trim_end()));
        }
        // Options of a command with subcommands are shown once as well.
        let shown = if before.is_empty() { self.everywhere.clone() } else { ids(command) };
        self.arguments(command.get_arguments().filter(|argument| !shown.contains(argument.get_id())));
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            self.raw(&format!(".TP\n.B {}", quoted(&format!("{name} {}", inner.get_name()))));
            self.text(&quoted(&about(inner.get_about())));
        }
        if let Some(example) = command.get_after_help() {
            self.raw(".PP\n.nf");
            self.text(&quoted(&example.to_string()));
            self.raw(".fi");
        }
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            if inner.get_arguments().any(|argument| !argument.is_global_set() && argument.get_id() != "help")
            {
                self.command(&format!("{name} "), inner);
            }
        }
    }

    fn arguments<'a>(&mut self, arguments: impl Iterator<Item = &'a Arg>) {
        for argument in arguments.filter(|argument| !argument.is_positional() && !argument.is_hide_set()) {
            let mut names = Vec::new();
            names.extend(argument.get_short().map(|short| format!("\\fB\\-{short}\\fR")));
            names.extend(argument.get_long().map(|long| format!("\\fB{}\\fR", quoted(&format!("--{long}")))));
            let mut head = names.join(", ");
            if argument.get_action().takes_values() {
                let value = format!("\\fI{}\\fR", quoted(&value(argument)));
                head += &if argument.is_require_equals_set() {
                    format!("[={value}]")
                } else {
                    format!(" {value}")
                };
            }
            self.raw(&format!(".TP\n{head}"));
            let mut text = about(argument.get_help());
            let words: Vec<String> =
                argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            if argument.get_action().takes_values()
                && !words.is_empty()
                && !argument.is_hide_possible_values_set()
            {
                text += &format!(" ({})", words.join(", "));
            }
            if argument.get_action().takes_values()
                && let [default] = argument.get_default_values()
            {
                text += &format!(" [default: {}]", default.to_string_lossy());
            }
            self.text(&quoted(&text));
        }
    }
}

fn value(argument: &Arg) -> String {
    match argument.get_value_names() {
        Some([name, ..]) => name.to_string(),
        _ => argument.get_id().to_string().to_uppercase(),
    }
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().collect::<String>() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_the_page() {
        let command = crate::cli::command();
        let page = page(&command);
        for inner in command.get_subcommands() {
            let head = format!(".SS \\fB{}\\fR", inner.get_name());
            assert_eq!(page.contains(&head), !inner.is_hide_set(), "{head}");
        }
        assert!(
            page.contains(".TP\n\\fB\\-\\-for\\fR \\fIWHAT\\fR\nUntil (up, down, finished, stopped, exit)\n"),
            "{page}"
        );
        for option in [
            "\\fB\\-\\-dry\\-run\\fR\nOnly report the images",
            "\\-\\-file\\fR \\fIFILE\\fR\nAnother",
            "\\-\\-valid\\fR \\fID\\fR\nThe validity of the certificate [default: 30d]\n",
        ] {
            assert_eq!(page.matches(option).count(), 1, "{option}: {page}");
        }
        assert!(page.contains("\\fB\\-e\\fR, \\fB\\-\\-endpoint\\fR \\fIE\\fR"));
        assert!(!page.lines().any(|line| {
            line.starts_with('.')
                && !line.starts_with(".S")
                && ![".TH", ".TP", ".PP", ".B ", ".BR ", ".I ", ".nf", ".fi"]
                    .iter()
                    .any(|known| line.starts_with(known))
        }));
    }
}
