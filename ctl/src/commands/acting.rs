//! The common part of `start`, `stop` and `restart`: ask, show the progress, report the outcome for each
//! service.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime};

use kelson_api::client::Client;
use kelson_proto::v1::action_result::Outcome;
use kelson_proto::v1::{ActionResponse, ActionResult, RestartRequest, StartRequest, State, StopRequest};
use tonic::Code;

use super::awaiting::{Goal, awaiting, note_obstacles};
use super::question;
use crate::call::Call;
use crate::failure::{ANSWER, Failure, explain_names, within};
use crate::output::{Page, escape, faulty, list, state_name, time};

/// The action that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Start { with_dependencies: bool },
    Stop { cascade: bool },
    Restart,
}

impl Action {
    fn goal(self) -> Goal {
        match self {
            Action::Start { .. } | Action::Restart => Goal::Up,
            Action::Stop { .. } => Goal::Down,
        }
    }
}

/// How long to stay.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Staying {
    /// Stay until it is done, and report the outcome
    #[arg(short, long)]
    wait: bool,
    /// Stay no longer than this, such as 30s
    #[arg(long, value_name = "D", requires = "wait", value_parser = time::parse_timeout)]
    timeout: Option<Duration>,
}

/// The options of a request beside the action and the names.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// Answer once it is done.
    pub wait: bool,
    /// Of a stop: also of the way by which we call.
    pub force: bool,
    /// Of a stop: for how long.
    pub stop_for: Option<Duration>,
}

/// Does it, and prints a line for each service.
pub async fn act(
    call: &Call,
    action: Action,
    names: Vec<String>,
    staying: Staying,
    manner: Manner,
) -> Result<(), Failure> {
    let client = call.client()?;
    let mut manner = Manner { wait: staying.wait, ..manner };
    let results = loop {
        match ask(call, &client, action, &names, &staying, manner).await {
            Ok(response) => break response.results,
            // Several hosts are asked side by side, and could not ask back so.
            Err(Failure::NeedsForce(why)) if !manner.force && call.node.is_none() && question::can_ask() => {
                call.note(&why);
                question::ask("Stop it all the same?")?;
                manner.force = true;
            }
            Err(failure) => return Err(explain_names(failure, &client, &names).await),
        }
    };
    show(call, &results, |result| describe(action, staying.wait, result))?;
    // A caller who does not stay learns now which condition is missing.
    let waits = |result: &&ActionResult| {
        result.service.as_ref().is_some_and(|service| service.state() == State::Waiting)
    };
    let mut never = false;
    if !staying.wait && action.goal() == Goal::Up {
        let waiting: Vec<String> = results.iter().filter(waits).map(|result| result.name.clone()).collect();
        never = note_obstacles(call, &client, &waiting, &mut HashSet::new()).await;
    }
    let with_mistakes: Vec<String> =
        results.iter().filter_map(|result| with_mistakes(action, result, SystemTime::now())).collect();
    with_mistakes.iter().for_each(|line| call.note(line));
    let bad = never || results.iter().any(is_bad) || !with_mistakes.is_empty();
    if bad { Err(Failure::Reported) } else { Ok(()) }
}

/// Prints a line for each service; those of a bad outcome as notes.
pub fn show(
    call: &Call,
    results: &[ActionResult],
    line: impl Fn(&ActionResult) -> String,
) -> Result<(), Failure> {
    let results = results.to_vec();
    call.show(&results, || {
        let mut lines = String::new();
        for result in &results {
            let line = line(result);
            if is_bad(result) { call.note(&line) } else { lines = lines + &escape(&line) + "\n" }
        }
        Page::Lines(lines)
    })
}

/// The note that an earlier version of the service's file was used, because the present one has a mistake.
pub fn with_mistakes(action: Action, result: &ActionResult, now: SystemTime) -> Option<String> {
    let file = result.service.as_ref()?.faulty_file.as_ref()?;
    let started = action.goal() == Goal::Up && !is_bad(result);
    started.then(|| faulty::started(&result.name, file, now)).flatten()
}

/// True where it was not done.
pub fn is_bad(result: &ActionResult) -> bool {
    matches!(result.outcome(), Outcome::Refused | Outcome::Failed)
}

/// Asks for it, and stays where that is wanted.
async fn ask(
    call: &Call,
    client: &Client,
    action: Action,
    names: &[String],
    staying: &Staying,
    manner: Manner,
) -> Result<ActionResponse, Failure> {
    let request = request(client, action, names.to_vec(), manner);
    if !staying.wait {
        return within(ANSWER, request).await;
    }
    let request = async {
        let Some(timeout) = staying.timeout else { return request.await };
        tokio::time::timeout(timeout, request).await.unwrap_or_else(|_| {
            Err(Failure::TimedOut(format!(
                "{} did not get there within {}; `kelsonctl why {}` tells what it waits for",
                list(names),
                time::relative(timeout),
                names.first().map_or("NAME", String::as_str)
            )))
        })
    };
    awaiting(call, client, names, action.goal(), Instant::now(), request).await
}

/// Asks for it.
///
/// # Errors
/// The call failed. [`Failure::NeedsForce`] is the only reason for which a host refuses a stop as a whole.
pub async fn request(
    client: &Client,
    action: Action,
    names: Vec<String>,
    manner: Manner,
) -> Result<ActionResponse, Failure> {
    let mut services = client.services();
    let Manner { wait, force, stop_for } = manner;
    let answer = match action {
        Action::Start { with_dependencies } => {
            services.start(StartRequest { names, wait, with_dependencies }).await
        }
        Action::Stop { cascade } => {
            let stop_for = stop_for.map(time::to_wire);
            services.stop(StopRequest { names, wait, cascade, force, stop_for }).await
        }
        Action::Restart => services.restart(RestartRequest { names, wait }).await,
    };
    match answer {
        Err(status) if action.goal() == Goal::Down && status.code() == Code::FailedPrecondition => {
            Err(Failure::NeedsForce(Failure::from(status).to_string()))
        }
        answer => Ok(answer?.into_inner()),
    }
}

/// A line about what became of one service.
pub fn describe(action: Action, waited: bool, result: &ActionResult) -> String {
    if !result.message.is_empty() || matches!(result.outcome(), Outcome::Refused | Outcome::Failed) {
        return describe_outcome(result);
    }
    let state = result.service.as_ref().map_or("unknown", |service| state_name(service.state()));
    let text = match (result.outcome(), action, waited) {
        (Outcome::Superseded, ..) => "a later request took its place".to_owned(),
        (Outcome::NothingToDo, ..) => format!("nothing to do, it is {state}"),
        (_, Action::Start { .. }, false) => "is being started".to_owned(),
        (_, Action::Stop { .. }, false) => "is being stopped".to_owned(),
        (_, Action::Restart, false) => "is being restarted".to_owned(),
        (_, _, true) => state.to_owned(),
    };
    format!("{}: {text}", result.name)
}

/// A line with the host's own words.
pub fn describe_outcome(result: &ActionResult) -> String {
    let text = match (result.outcome(), result.message.as_str()) {
        (Outcome::Refused, "") => "refused".to_owned(),
        (Outcome::Failed, "") => format!("failed; `kelsonctl status {}` tells more", result.name),
        (Outcome::Refused, text) => format!("refused: {text}"),
        (Outcome::Failed, text) => format!("failed: {text}"),
        (_, text) => text.to_owned(),
    };
    format!("{}: {text}", result.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(outcome: Outcome, message: &str, waited: bool) -> String {
        let result = crate::samples::result("db", outcome, message);
        describe(Action::Start { with_dependencies: false }, waited, &result)
    }

    #[test]
    fn a_line_tells_what_happened() {
        assert_eq!(line(Outcome::Done, "up after 120 ms", true), "db: up after 120 ms");
        assert_eq!(line(Outcome::Done, "", false), "db: is being started");
        assert_eq!(line(Outcome::NothingToDo, "it runs already", false), "db: it runs already");
        assert_eq!(line(Outcome::Refused, "\"web\" needs it", false), "db: refused: \"web\" needs it");
        assert_eq!(line(Outcome::Failed, "exited with status 3", true), "db: failed: exited with status 3");
        assert_eq!(line(Outcome::Failed, "", true), "db: failed; `kelsonctl status db` tells more");
        assert_eq!(line(Outcome::Superseded, "", true), "db: a later request took its place");
    }
}
