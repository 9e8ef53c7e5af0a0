//! Asking back on a terminal, before something that is hard to take back.

use std::io::{IsTerminal as _, Write as _};

use kelson_api::client::Endpoint;

use super::Call;
use crate::cli::Command;
use crate::contexts::Choice;
use crate::failure::Failure;
use crate::output::text::escape;

/// True where somebody sees the question and can answer it.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Returns once the answer is yes.
///
/// # Errors
/// It is anything else.
pub fn ask(question: &str) -> Result<(), Failure> {
    let mut stderr = std::io::stderr().lock();
    let shown = write!(stderr, "{} [y/N] ", escape(question)).and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = shown.and_then(|()| std::io::stdin().read_line(&mut answer));
    match (read, answer.trim().to_ascii_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => Ok(()),
        _ => Err(Failure::Failed("nothing was done".to_owned())),
    }
}

/// Asks back, on a terminal, before the end of the run of hosts that are reached over the network.
///
/// # Errors
/// The answer is not yes.
pub fn ending<'a>(
    command: &Command,
    hosts: impl Iterator<Item = (Option<&'a str>, &'a Choice)>,
) -> Result<(), Failure> {
    let (verb, ending) = match command {
        Command::Reboot(arguments) => ("Reboot", &arguments.ending),
        Command::Poweroff(arguments) => ("Power off", &arguments.ending),
        Command::Halt(arguments) => ("Halt", &arguments.ending),
        _ => return Ok(()),
    };
    if ending.yes || !can_ask() {
        return Ok(());
    }
    let remote = hosts.filter_map(|(name, choice)| {
        // One that cannot be resolved fails on its own, when it is called.
        let endpoint = choice.resolve().ok()?.endpoint;
        let remote = matches!(endpoint, Endpoint::Remote { .. });
        remote.then(|| name.map_or_else(|| endpoint.to_string(), |name| format!("{name} ({endpoint})")))
    });
    let remote: Vec<String> = remote.collect();
    match remote.is_empty() {
        true => Ok(()),
        false => ask(&format!("{verb} {}?", remote.join(", "))),
    }
}

/// The same for the one host of a call.
///
/// # Errors
/// As [`ending`].
pub fn ending_of_one(command: &Command, call: &Call) -> Result<(), Failure> {
    ending(command, std::iter::once((call.choice.context.as_deref(), &call.choice)))
}
