//! The words that could come next on a command line, found in the tree that also parses it.

use clap::{Arg, ArgAction, Command};

/// The kinds of words that the word being written can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// One of these, each with what it is.
    Words(Vec<(String, String)>),
    /// The name of a service.
    Services,
    /// The name of a group of services.
    Groups,
    /// The name of a context.
    Contexts,
    /// Names of contexts, with commas, or `all`.
    Nodes,
    /// The name of a host of the fleet.
    Hosts,
    /// A name under which services of the fleet are registered.
    Registered,
    /// The name of a plan of the fleet.
    Plans,
    /// Nothing that is known here: a file, a number.
    Nothing,
}

/// The question for completion, and the host that the words so far choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub wanted: Wanted,
    pub endpoint: Option<String>,
    pub context: Option<String>,
    /// The value of `--nodes`.
    pub nodes: Option<String>,
}

/// Reads the words after the program's name; the last one is the one that is being written.
pub fn wanted(root: &Command, words: &[String]) -> Question {
    let mut root = root.clone();
    // Hands the options of every command down to each.
    root.build();
    let mut command = &root;
    let mut question = Question { wanted: Wanted::Nothing, endpoint: None, context: None, nodes: None };
    let (mut places, mut only_places) = (0, false);
    let mut pending: Option<&Arg> = None;
    let (last, earlier) = match words.split_last() {
        Some((last, earlier)) => (last.as_str(), earlier),
        None => ("", words),
    };
    for word in earlier {
        if let Some(option) = pending.take() {
            question.note(option, word);
        } else if only_places || !word.starts_with('-') || word == "-" {
            match command.find_subcommand(word).filter(|_| !only_places) {
                Some(inner) => (command, places) = (inner, 0),
                None => places += 1,
            }
        } else if word == "--" {
            only_places = true;
        } else if let Some((name, value)) = word.split_once('=') {
            if let Some(option) = find(command, name) {
                question.note(option, value);
            }
        } else {
            pending = find(command, word).filter(|option| takes_value(option));
        }
    }
    question.wanted = match pending {
        Some(option) => values(option),
        None if last.starts_with('-') && !only_places => Wanted::Words(options(command)),
        None if command.has_subcommands() && !only_places => Wanted::Words(commands(command)),
        None => place(command, places).map_or(Wanted::Nothing, values),
    };
    question
}

impl Question {
    fn note(&mut self, option: &Arg, value: &str) {
        match option.get_id().as_str() {
            "endpoint" => self.endpoint = Some(value.to_owned()),
            "context" => self.context = Some(value.to_owned()),
            "nodes" => self.nodes = Some(value.to_owned()),
            _ => {}
        }
    }
}

/// The option of this name; of several short ones in one word, the last.
fn find<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|option| match word.strip_prefix("--") {
        Some(long) => option.get_long() == Some(long),
        None => option.get_short().is_some() && option.get_short() == word.chars().last(),
    })
}

fn takes_value(option: &Arg) -> bool {
    // A value that stands behind `=` is no word of its own.
    matches!(option.get_action(), ArgAction::Set | ArgAction::Append) && !option.is_require_equals_set()
}

fn options(command: &Command) -> Vec<(String, String)> {
    let shown = command.get_arguments().filter(|option| !option.is_hide_set());
    shown.filter_map(|option| Some((format!("--{}", option.get_long()?), about(option.get_help())))).collect()
}

fn commands(command: &Command) -> Vec<(String, String)> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| (command.get_name().to_owned(), about(command.get_about()))).collect()
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// The argument at this place; the last one takes all that follow, where it takes several.
fn place(command: &Command, number: usize) -> Option<&Arg> {
    let all: Vec<&Arg> = command.get_positionals().collect();
    all.get(number)
        .or_else(|| all.last().filter(|last| matches!(last.get_action(), ArgAction::Append)))
        .copied()
}

fn values(argument: &Arg) -> Wanted {
    match argument.get_id().as_str() {
        "name" | "names" => return Wanted::Services,
        "group" => return Wanted::Groups,
        "context" | "known" => return Wanted::Contexts,
        "nodes" => return Wanted::Nodes,
        "hosts" => return Wanted::Hosts,
        "registered" => return Wanted::Registered,
        "plan" => return Wanted::Plans,
        "signal" => {
            return Wanted::Words(
                kelson_spec::signal_names().map(|name| (name.to_owned(), String::new())).collect(),
            );
        }
        _ => {}
    }
    let words: Vec<(String, String)> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| (value.get_name().to_owned(), about(value.get_help())))
        .collect();
    if words.is_empty() { Wanted::Nothing } else { Wanted::Words(words) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    fn ask(line: &str) -> Question {
        // As a shell hands it over: a line that ends in a space has an empty last word.
        wanted(&command(), &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn words(line: &str) -> Vec<String> {
        match ask(line).wanted {
            Wanted::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
            other => panic!("{line:?} wants {other:?}"),
        }
    }

    #[test]
    fn commands_come_first() {
        let all = words("");
        assert!(all.contains(&"services".to_owned()) && all.contains(&"poweroff".to_owned()));
        assert!(!all.contains(&"complete".to_owned()), "what is hidden is not offered");
        assert_eq!(words("boot "), ["blame", "critical-chain", "plot"]);
        assert_eq!(words("images "), ["prune", "update"]);
        assert_eq!(words("-o json boot bl"), ["blame", "critical-chain", "plot"]);
    }

    #[test]
    fn names_of_services_are_asked_for_where_they_stand() {
        let lines = "start |start db we|status |why w|wait --for up |logs -f |logs --tail 5 db |stop -- |\
            exec |exec -i |cat |kill |ps |restart --wait |events -f |events --timeline |metrics |\
            processes --sort cpu |netstat -c db ";
        for line in lines.split('|') {
            assert_eq!(ask(line).wanted, Wanted::Services, "{line}");
        }
        assert_eq!(ask("status db ").wanted, Wanted::Nothing, "one name is enough");
        assert_eq!(ask("validate ").wanted, Wanted::Nothing);
        assert_eq!(ask("exec db -- ").wanted, Wanted::Nothing, "what it runs is known there alone");
    }

    #[test]
    fn options_and_their_values() {
        assert!(words("stop --").contains(&"--cascade".to_owned()));
        assert!(words("stop --").contains(&"--output".to_owned()), "those of every command too");
        assert_eq!(words("wait db --for "), ["up", "down", "finished", "stopped", "exit"]);
        assert_eq!(words("-o "), ["table", "json", "yaml"]);
        assert_eq!(words("graph -f "), ["text", "svg", "dot", "mermaid"]);
        assert_eq!(words("events --timeline --format "), ["text", "svg"]);
        assert_eq!(words("completion "), ["bash", "zsh", "fish"]);
        assert_eq!(words("gen cert --role "), ["os:reader", "os:operator", "os:admin"]);
        for line in ["--context ", "config use ", "config remove "] {
            assert_eq!(ask(line).wanted, Wanted::Contexts, "{line}");
        }
        assert_eq!(ask("gen ca --name ").wanted, Wanted::Nothing);
        assert_eq!(ask("start -n edge,").wanted, Wanted::Nodes);
        assert_eq!(ask("logs --since ").wanted, Wanted::Nothing);
        assert_eq!(ask("health --watch ").wanted, Wanted::Groups);
        assert_eq!(ask("fleet hosts -l role=edge ed").wanted, Wanted::Hosts);
        assert_eq!(ask("fleet services ").wanted, Wanted::Registered);
        assert_eq!(ask("fleet restart web --host ").wanted, Wanted::Hosts);
        assert_eq!(ask("fleet restart web ").wanted, Wanted::Services);
        assert_eq!(ask("fleet restart --plan ").wanted, Wanted::Nothing);
        assert_eq!(ask("fleet resume ").wanted, Wanted::Plans);
        assert_eq!(ask("fleet plans ").wanted, Wanted::Plans);
        assert_eq!(ask("fleet services --tag ").wanted, Wanted::Nothing);
    }

    #[test]
    fn the_host_is_the_one_that_the_line_names() {
        let question = ask("-e 10.0.0.1:5 start ");
        assert_eq!(question.endpoint.as_deref(), Some("10.0.0.1:5"));
        let question = ask("start --context=edge -e unix:///x ");
        assert_eq!(
            (question.context.as_deref(), question.endpoint.as_deref()),
            (Some("edge"), Some("unix:///x"))
        );
        assert_eq!(ask("-n edge,lab start ").nodes.as_deref(), Some("edge,lab"));
    }
}
