//! `why`: what a service waits for, down to the cause.

use std::collections::HashMap;
use std::time::SystemTime;

use kelson_api::client::Client;
use kelson_proto::v1::missing::Kind;
use kelson_proto::v1::{Reason, State, StatusRequest, WhyRequest};

use super::last_lines::last_lines;
use super::newer_secrets::newer_secrets;
use super::registry;
use crate::call::{Call, Run};
use crate::failure::{Failure, answer, answer_about};
use crate::output::tree::{Branch, render};
use crate::output::{Page, Palette, Tone, escape, escape_bytes, faulty, fit, retry, state_name, state_tone};

/// Lines of a run, services and columns that are shown at most.
const LINES: u32 = 3;
const SERVICES: usize = 3;
const COLUMNS: usize = 160;

/// The context of the chain.
struct Beside {
    palette: Palette,
    now: SystemTime,
    /// Below which service which lines stand: of its log, of its secrets, and of its registration.
    logs: HashMap<String, Vec<Branch>>,
}

/// Show what a service waits for, down to the cause
///
/// For a failed service it shows the last lines of the failed run.
///
/// Examples:
///   kelsonctl why web
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The service
    #[arg(value_name = "NAME")]
    name: String,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let names = [self.name.clone()];
        let request = WhyRequest { name: self.name };
        let answer = answer_about(&client, &names, client.services().why(request)).await?;
        let reason = answer.reason.unwrap_or_default();
        let mut shown = String::new();
        if call.is_table() {
            let [name] = &names;
            let mut logs = HashMap::new();
            for service in failed(name, &reason).into_iter().take(SERVICES) {
                logs.insert(service.to_owned(), log(&client, service).await);
            }
            if reason.state() == State::Running {
                let found = [newer_secrets(&client, name).await, registry::problem(&client, name).await];
                let leaf = |line: String| Branch { line: escape(&line).into_owned(), below: Vec::new() };
                logs.insert(name.clone(), found.into_iter().flatten().map(leaf).collect());
            }
            let beside = Beside { palette: call.terminal.palette, now: SystemTime::now(), logs };
            shown = render(&branch(name, &reason, &beside), call.terminal.unicode);
        }
        call.show(&reason, || Page::Text(shown))
    }
}

/// The services of the chain whose last run failed, each once. `name`: that of the head.
fn failed<'a>(name: &'a str, reason: &'a Reason) -> Vec<&'a str> {
    let has_failed = matches!(reason.state(), State::Failed | State::Backoff);
    let mut services: Vec<&str> = has_failed.then_some(name).into_iter().collect();
    for cause in &reason.causes {
        let below = failed(service_of(cause), cause);
        let new: Vec<&str> = below.into_iter().filter(|service| !services.contains(service)).collect();
        services.extend(new);
    }
    services
}

/// The service that a cause means; empty where it is another condition.
fn service_of(cause: &Reason) -> &str {
    let missing = cause.missing.as_ref().filter(|missing| missing.kind() == Kind::Service);
    missing.map_or("", |missing| missing.name.as_str())
}

/// The branch below a service whose last run failed: the last lines of that run, or the reason why they
/// cannot be shown.
async fn log(client: &Client, service: &str) -> Vec<Branch> {
    let leaf = |line: String| Branch { line, below: Vec::new() };
    let request = StatusRequest { name: service.to_owned() };
    let Ok(status) = answer(client.services().status(request)).await else { return Vec::new() };
    let Some(run) = status.service.map(|service| service.run).filter(|run| *run > 0) else {
        return Vec::new();
    };
    let lines = match last_lines(client, service, LINES, Some(run)).await {
        Ok(lines) => lines,
        Err(why) => return vec![leaf(escape(&why.to_string()).into_owned())],
    };
    let below: Vec<Branch> =
        lines.iter().map(|line| leaf(fit(&escape_bytes(&line.text), COLUMNS).into_owned())).collect();
    if below.is_empty() {
        return Vec::new();
    }
    vec![Branch { line: format!("last lines of run {run}"), below }]
}

/// A line for a link of the chain: `service "db": failed, exited with status 3`.
fn branch(name: &str, reason: &Reason, beside: &Beside) -> Branch {
    let Beside { palette, now, logs } = beside;
    let state = state_name(reason.state());
    let text = retry::message(&reason.text, reason.retry.as_ref());
    let text = escape(&text);
    // A message often begins with the state, which is not shown twice.
    let said = if state.is_empty() || text.starts_with(state) {
        text.into_owned()
    } else if text.is_empty() {
        state.to_owned()
    } else {
        format!("{state}, {text}")
    };
    let tone = match reason.state() {
        _ if reason.holds => Tone::Good,
        State::Unspecified => Tone::Waiting,
        state => state_tone(state, false),
    };
    let subject = escape(&reason.subject);
    let line = if said.is_empty() {
        subject.into_owned()
    } else {
        format!("{subject}: {}", palette.paint(tone, &said))
    };
    let mut below: Vec<Branch> =
        reason.causes.iter().map(|cause| branch(service_of(cause), cause, beside)).collect();
    let mistakes = reason.faulty_file.iter().flat_map(|file| faulty::lines(file, *now));
    let mistakes: Vec<Branch> =
        mistakes.map(|line| Branch { line: escape(&line).into_owned(), below: Vec::new() }).collect();
    if !mistakes.is_empty() {
        below.push(Branch { line: palette.paint(Tone::Waiting, "mistake in its file"), below: mistakes });
    }
    below.extend(logs.get(name).cloned().unwrap_or_default());
    Branch { line, below }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside() -> Beside {
        Beside { palette: Palette::None, now: SystemTime::now(), logs: HashMap::new() }
    }

    fn reason(subject: &str, state: State, text: &str, causes: Vec<Reason>) -> Reason {
        Reason {
            subject: subject.to_owned(),
            text: text.to_owned(),
            state: state.into(),
            causes,
            ..Reason::default()
        }
    }

    #[test]
    fn the_state_is_said_once() {
        let line = |state, text| branch("web", &reason("web", state, text, vec![]), &beside()).line;
        assert_eq!(line(State::Waiting, "waiting for path \"/x\""), "web: waiting for path \"/x\"");
        assert_eq!(line(State::Running, "running, ready after 2 s"), "web: running, ready after 2 s");
        assert_eq!(line(State::Backoff, "exited with status 3"), "web: backoff, exited with status 3");
        assert_eq!(line(State::Finished, ""), "web: finished");
        assert_eq!(line(State::Unspecified, "not yet"), "web: not yet");
    }

    #[test]
    fn nothing_foreign_steers_the_terminal() {
        let evil = reason("a\x1b[2J", State::Failed, "b\nc", vec![]);
        assert_eq!(render(&branch("web", &evil, &beside()), true), "a\\x1b[2J: failed, b\\nc\n");
    }
}
