//! `why`: what a service waits for, down to the cause.

use std::time::SystemTime;

use kelson_proto::v1::{Reason, State, WhyRequest};

use super::Call;
use crate::failure::{Failure, answer, explain_names};
use crate::output::page::Page;
use crate::output::style::{Palette, Tone, state_name, state_tone};
use crate::output::text::escape;
use crate::output::tree::{Branch, render};
use crate::output::{faulty, views};

/// Tell what a service waits for, down to the cause
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  kelsonctl why web")]
pub struct Arguments {
    /// The service
    #[arg(value_name = "NAME")]
    name: String,
}

pub async fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let client = call.client()?;
    let names = [arguments.name.clone()];
    let answer = match answer(client.services().why(WhyRequest { name: arguments.name })).await {
        Ok(answer) => answer,
        Err(failure) => return Err(explain_names(failure, &client, &names).await),
    };
    let reason = answer.reason.unwrap_or_default();
    let now = SystemTime::now();
    let page = || Page::Text(render(&branch(&reason, call.terminal.palette, now), call.terminal.unicode));
    call.show(|| views::Reason::from(&reason), page)
}

/// A line for a link of the chain: `service "db": failed, exited with status 3`.
fn branch(reason: &Reason, palette: Palette, now: SystemTime) -> Branch {
    let state = state_name(reason.state());
    let text = escape(&reason.text);
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
    let mut below: Vec<Branch> = reason.causes.iter().map(|cause| branch(cause, palette, now)).collect();
    let mistakes = reason.faulty_file.iter().flat_map(|file| faulty::lines(file, now));
    let mistakes: Vec<Branch> =
        mistakes.map(|line| Branch { line: escape(&line).into_owned(), below: Vec::new() }).collect();
    if !mistakes.is_empty() {
        below.push(Branch { line: palette.paint(Tone::Waiting, "mistake in its file"), below: mistakes });
    }
    Branch { line, below }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_proto::v1::{FaultyFile, FileMistake};

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
    fn the_chain_leads_to_the_cause() {
        let chain = reason(
            "service \"web\"",
            State::Waiting,
            "waiting for service \"db\" to be up",
            vec![
                reason("service \"db\"", State::Backoff, "exited with status 3, restarting in 2 s", vec![]),
                reason("path \"/run/x\"", State::Unspecified, "does not exist", vec![]),
            ],
        );
        assert_eq!(
            render(&branch(&chain, Palette::None, SystemTime::now()), true),
            "\
service \"web\": waiting for service \"db\" to be up
├─ service \"db\": backoff, exited with status 3, restarting in 2 s
└─ path \"/run/x\": does not exist
"
        );
    }

    #[test]
    fn a_mistake_in_the_file_stands_below_the_causes() {
        let mistake =
            FileMistake { file: "web.yaml".to_owned(), message: "empty".to_owned(), ..Default::default() };
        let file = FaultyFile { mistakes: vec![mistake], earlier_in_use: true, earlier_read: None };
        let web = reason("web", State::Waiting, "", vec![reason("db", State::Failed, "", vec![])]);
        let web = Reason { faulty_file: Some(file), ..web };
        assert_eq!(
            render(&branch(&web, Palette::None, SystemTime::now()), true),
            "\
web: waiting
├─ db: failed
└─ mistake in its file
   ├─ web.yaml: empty
   └─ an earlier version is in use; correct the file and run `kelsonctl reload`
"
        );
    }

    #[test]
    fn the_state_is_said_once() {
        let line =
            |state, text| branch(&reason("web", state, text, vec![]), Palette::None, SystemTime::now()).line;
        assert_eq!(line(State::Waiting, "waiting for path \"/x\""), "web: waiting for path \"/x\"");
        assert_eq!(line(State::Running, "running, ready after 2 s"), "web: running, ready after 2 s");
        assert_eq!(line(State::Backoff, "exited with status 3"), "web: backoff, exited with status 3");
        assert_eq!(line(State::Finished, ""), "web: finished");
        assert_eq!(line(State::Unspecified, "not yet"), "web: not yet");
    }

    #[test]
    fn nothing_foreign_steers_the_terminal() {
        let evil = reason("a\x1b[2J", State::Failed, "b\nc", vec![]);
        assert_eq!(
            render(&branch(&evil, Palette::None, SystemTime::now()), true),
            "a\\x1b[2J: failed, b\\nc\n"
        );
    }
}
