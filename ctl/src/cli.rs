//! The words of the command line. Each command's own words are in its file; help, man page and completion are made
//! from these.

use std::time::Duration;

use clap::builder::{Resettable, StyledStr};
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use crate::call::Global;
use crate::commands::Command;
use crate::failure::STATUSES;

/// Shows and controls the services of a Kelson host
#[derive(Debug, Parser)]
#[command(name = "kelsonctl", version, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The time between two runs of a command that has `--watch`, where it is given.
    #[arg(skip)]
    pub watch: Option<Duration>,
}

/// The tree of all commands, options and words.
pub fn command() -> clap::Command {
    let statuses = STATUSES.iter().map(|(status, meaning)| format!("  {status}  {meaning}\n"));
    let after = format!("Exit status:\n{}{}", statuses.collect::<String>(), include_str!("cli/after.txt"));
    with_examples(Cli::command().after_help(after.trim_end().to_owned()))
}

/// Reads the command line of this process.
///
/// # Errors
/// It is wrong, or asks for help.
pub fn parse() -> Result<Cli, clap::Error> {
    let matches = command().try_get_matches()?;
    let mut own = &matches;
    while let Some((_, next)) = own.subcommand() {
        own = next;
    }
    let watch = own.try_get_one("watch").ok().flatten().copied();
    Ok(Cli { watch, ..Cli::from_arg_matches(&matches)? })
}

/// The comment on a command is its help. Examples stand last in it, and last in the short help, too.
fn with_examples(mut command: clap::Command) -> clap::Command {
    let text = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    if let Some((about, examples)) = text.split_once("\n\nExamples:\n") {
        let long = about.contains('\n').then(|| StyledStr::from(about.to_owned()));
        command = command.long_about(Resettable::from(long)).after_help(format!("Examples:\n{examples}"));
    }
    command.mut_subcommands(with_examples)
}

/// The output of `kelsonctl` without arguments.
pub fn help() -> String {
    command().render_help().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_tree_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn global_words_stand_before_or_after_the_command() {
        for line in ["kelsonctl -o json -e h:1 services", "kelsonctl services -o json -e h:1"] {
            let cli = parse(line).unwrap();
            assert_eq!(
                (cli.global.output, cli.global.endpoint.as_deref()),
                (Some(Format::Json), Some("h:1"))
            );
        }
        for line in ["kelsonctl -n a,b -n c services", "kelsonctl services -n a,b --nodes c"] {
            assert_eq!(parse(line).unwrap().global.nodes, ["a", "b", "c"]);
        }
        assert_eq!(
            parse("kelsonctl -n a services -n b").unwrap().global.nodes,
            ["b"],
            "as of all the others"
        );
    }

    #[test]
    fn what_is_wrong_is_usage() {
        let wrong = "start; servces; services -o xml; wait db; wait db --for running; \
            wait db --for up --timeout soon; logs db --since 5; events --since yesterday; \
            start db --timeout 5s; boot blames; images prune web; images --dry-run; graph --format png; \
            completion tcsh; validate; exec db; health --timeout 5s; health --wait --watch; \
            services --watch=0; services --watch=soon; exec db -l ls; cat; exec db -E A -- ls; gen; \
            gen cert --ca pki; gen cert --ca pki --role os:reader --server --host h; \
            gen cert --ca pki --role os:reader --host h; gen cert --ca pki --role os:root; \
            gen cert --ca pki --server; gen cert --ca pki --server --host h:1; \
            gen cert --role os:reader; gen ca --valid 5; gen ca --algorithm rsa; gen ca --name a/b; \
            processes --sort name; cpu --interval soon; signal db; signal db HUPP; signal db 65; ls; \
            ls etc; read; cp /etc; cp etc :etc; support --lines many; config; config use; \
            config add a --ca f";
        for line in wrong.split("; ") {
            let error = parse(&format!("kelsonctl {line}")).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}: {error}");
        }
    }

    #[test]
    fn a_command_needs_no_dashes_before_it() {
        for (line, words) in [
            ("kelsonctl exec db ls -l", &["ls", "-l"][..]),
            ("kelsonctl exec db -- ls -l", &["ls", "-l"]),
            ("kelsonctl exec -it db sh -c id", &["sh", "-c", "id"]),
            ("kelsonctl exec db -i cat -o json", &["cat", "-o", "json"]),
            ("kelsonctl exec db env -- ls", &["env", "--", "ls"]),
        ] {
            let Some(Command::Exec(arguments)) = parse(line).unwrap().command else { panic!("{line}") };
            assert_eq!(arguments.command, words, "{line}");
        }
    }

    #[test]
    fn a_near_command_is_suggested() {
        assert!(parse("kelsonctl servces").unwrap_err().to_string().contains("'services'"));
    }

    /// Every command that is shown, those within others too, by all its words.
    fn all() -> Vec<(String, clap::Command)> {
        let mut root = command();
        root.build();
        let mut all = vec![("kelsonctl".to_owned(), root)];
        let mut next = 0;
        while let Some((words, command)) = all.get(next).cloned() {
            let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
            all.extend(shown.map(|inner| (format!("{words} {}", inner.get_name()), inner.clone())));
            next += 1;
        }
        all
    }

    #[test]
    fn every_command_has_a_line_of_help_and_an_example() {
        for (words, command) in all() {
            assert!(command.get_about().is_some(), "{words} says what it does");
            // The examples of a command contain those of the words within it.
            if words.matches(' ').count() == 1 || words.contains(" gen ") || words.contains(" config ") {
                let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.contains(&words), "{words} has an example: {after}");
            }
        }
    }

    #[test]
    fn help_fits_eighty_columns() {
        for (words, mut command) in all() {
            for help in [command.render_help(), command.render_long_help()] {
                for line in help.to_string().lines() {
                    assert!(line.chars().count() <= 80, "{words}: {line}");
                }
            }
        }
    }
}
